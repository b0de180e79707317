"""The explorer: settings to curves (no marimo needed), their drawing, a live notebook and a static page."""
