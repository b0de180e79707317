"""What commands print of their results. Heavy libraries are imported here, not by the commands themselves."""
