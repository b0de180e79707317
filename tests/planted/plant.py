"""Plant errors in claims, one at a time, and count those that a search notices: `make planted`.

Each TOML file of this folder belongs to a chapter of the register. An entry of `error` replaces a text in the source of
a claim and names an instance that refutes the result; the instance is measured first. An entry of `variant` replaces a
text by one that says something true, so that a verdict that changes is a false alarm. Level full is tried for the
errors that level quick misses. Every entry runs in a process of its own.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

HERE = Path(__file__).resolve().parent
CLAIMS = HERE.parent.parent / "validation" / "claims"
PACKAGE = "snapdyn.validation.claims"
KINDS = ("factor 1.05", "factor 1.2", "factor", "sign", "exponent", "p_n or K missing", "condition", "bound", "control")
TRUE = ("true variant", "control")  # kinds without a refuting instance
OTHER_SEED = 20_000  # of searches for refuting instances


class Planted(SourceFileLoader):
    """Loader of one module whose source has been changed; it finds this module and no other."""

    def __init__(self, file: str, old: str, new: str) -> None:
        name = f"{PACKAGE}.{file.removesuffix('.py').replace('/', '.')}"
        super().__init__(name, str(CLAIMS / file))
        source = (CLAIMS / file).read_text(encoding="utf-8")
        if source.count(old) != 1:
            raise ValueError(
                f"expected the text to replace once in {file}, received it {source.count(old)} times: {old}"
            )
        self.changed = source.replace(old, new)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, name: str) -> CodeType:
        return compile(self.changed, self.path, "exec")


class Noticed(Exception):
    """A search has found an instance on which a statement fails."""


def entries(files: list[Path]) -> Iterator[dict[str, Any]]:
    """Give the entries of files, errors and true variants, each with its kind."""
    for file in files:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        for entry in found.get("error", []):
            if entry["kind"] not in KINDS:
                raise ValueError(f"expected a kind of {KINDS} in {file.name}, received {entry['kind']!r}")
            yield {"property": 0, **entry}
        for entry in found.get("variant", []):
            yield {"property": 0, **entry, "kind": "true variant"}


def planted_claim(entry: dict[str, Any]) -> Any:
    """The claim of an entry, from its chapter imported again with the changed source, in this process."""
    from snapdyn.validation.claims import claims_of_chapter

    chapter, _, _ = entry["file"].partition("/")
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.{chapter}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, Planted(entry["file"], entry["old"], entry["new"]))  # type: ignore[arg-type]
    return claims_of_chapter(chapter)[entry["claim"]]


def examined(entry: dict[str, Any], stored: bool, full: bool) -> dict[str, Any]:
    """Plant one entry in this process, and say whether it is false and which level notices it."""
    from snapdyn.validation import engine, verdicts
    from snapdyn.validation.measured import SEED
    from snapdyn.validation.search.counterexamples import worst_cases

    claim = planted_claim(entry)
    prop = claim.properties[entry["property"]]
    result = {**entry, "false": refuted(entry, claim), "quick": False, "full": False, "evaluations": 0, "how": ""}
    if not stored:
        verdicts.worst_cases = lambda *names: ()  # type: ignore[assignment]
    count, add, full_search = 0, engine.Examination.add, False

    def counted(self: Any, prop: Any, instance: Any, most_outside: int) -> Any:
        nonlocal count
        measured = add(self, prop, instance, most_outside)
        count += 1
        if (
            self.worst is not None
            and not self.worst.measured.holds
            and (prop.corrected or claim.expected != "corrected")
        ):
            raise Noticed
        return measured

    engine.Examination.add = counted  # type: ignore[method-assign]
    try:
        # The property with the error alone decides most entries; the other properties may take minutes.
        if entry["kind"] not in TRUE and (prop.corrected or claim.expected != "corrected"):
            failing = [name for name, setting in prop.settings("cases").items() if fails(prop, setting, name)]
            if failing:
                return result | {"quick": True, "full": True, "how": f"setting {failing[0]}"}
            if prop.domain is not None:
                known = worst_cases(claim.id, prop.name) if stored else ()
                engine.examine(prop, prop.evaluations[0], SEED, known=known)
        judged = verdicts.check_claim(claim, "quick")
        fault = judged.fault
        if not judged.as_expected or fault:
            failing = [each for each in judged.checks if not each.as_expected and each.role != "outside"]
            result |= {"quick": True, "how": fault or "; ".join(f"{each.name}: {each.comparison}" for each in failing)}
            if "Noticed" in fault:
                result["how"] = "search"
        elif full and prop.domain is not None and entry["kind"] != "true variant":
            full_search = True
            known = worst_cases(claim.id, prop.name) if stored else ()
            engine.examine(prop, prop.evaluations[1], SEED, known=known)
    except Noticed:
        result |= {"quick": not full_search, "full": True, "how": "search"}
    result["full"] |= result["quick"]
    return result | {"evaluations": count}


def fails(prop: Any, setting: Any, name: str) -> bool:
    """Whether a statement fails on a setting inside its conditions."""
    reading = prop.at(setting, name)
    return not reading.unmet and reading.measured is not None and not reading.measured.holds


def found_by_search(entry: dict[str, Any]) -> dict[str, Any]:
    """Look for an instance that refutes an entry: settings of the claim, then a search with a seed of its own."""
    from snapdyn.validation import engine
    from snapdyn.validation.attack import plain, simplified

    claim = planted_claim(entry)
    prop = claim.properties[entry["property"]]
    for name, setting in {**prop.settings("cases"), **prop.settings("beyond")}.items():
        if fails(prop, setting, name):
            return {**entry, "setting": name}
    if prop.domain is None:
        return entry
    budget = min(prop.evaluations[1], 6 * prop.evaluations[0])
    worst = engine.examine(prop, budget, OTHER_SEED).worst
    if worst is None or worst.measured.holds:
        return {**entry, "why": f"none found: {worst and worst.measured}"}
    return {**entry, "instance": plain(simplified(prop, worst.instance))}


def refuted(entry: dict[str, Any], claim: Any) -> bool | None:
    """Whether the entry's own instance contradicts the claim with the error; None where there is no instance."""
    from snapdyn.validation.search.instance import Instance

    prop = claim.properties[entry["property"]]
    if "setting" in entry:
        instance = {**prop.settings("cases"), **prop.settings("beyond")}[entry["setting"]]
    elif "instance" in entry:
        given = entry["instance"]
        instance = Instance.from_dict(given) if "P" in given else given
    else:
        return None
    reading = prop.at(instance, "refuting instance")
    if reading.unmet or reading.measured is None:
        raise ValueError(f"the refuting instance lies outside the conditions: {[str(each) for each in reading.unmet]}")
    return not reading.measured.holds and not prop.with_rounding(instance, reading.measured).holds


def safely(task: tuple[dict[str, Any], bool, bool, bool]) -> dict[str, Any]:
    """Give the result of `examined`, with what is wrong with the entry where it raises."""
    try:
        return found_by_search(task[0]) if task[3] else examined(*task[:3])
    except Exception as error:
        return {**task[0], "trouble": f"{type(error).__name__}: {error}"}


def table(results: list[dict[str, Any]]) -> str:
    """Counts by kind, as a table of Markdown."""
    lines = ["| kind | planted | noticed at quick | noticed at full | median evaluations |", "|---|---|---|---|---|"]
    errors = [each for each in results if each["kind"] != "true variant"]
    for kind in [*KINDS, "all"]:
        of_kind = [each for each in errors if kind in (each["kind"], "all")]
        if of_kind:
            counts = Counter(level for each in of_kind for level in ("quick", "full") if each[level])
            spent = [each["evaluations"] for each in of_kind if each["full"]]
            median = f"{statistics.median(spent):.0f}" if spent else "-"
            lines.append(f"| {kind} | {len(of_kind)} | {counts['quick']} | {counts['full']} | {median} |")
    true = [each for each in results if each["kind"] == "true variant"]
    lines.append(f"\nTrue variants: {len(true)}, false alarms: {sum(each['full'] for each in true)}.")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="TOML files; default all of this folder")
    parser.add_argument("--claim", help="only the entries of this claim")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without-stored", action="store_true", help="searches do not know the stored worst cases")
    parser.add_argument("--quick", action="store_true", help="leave level full out")
    parser.add_argument("--find", action="store_true", help="look for refuting instances of the entries without one")
    parser.add_argument("--json", type=Path, help="append each result to this file, a line of JSON each")
    options = parser.parse_args()
    chosen = [
        each for each in entries(options.files or sorted(HERE.glob("*.toml"))) if options.claim in (None, each["claim"])
    ]
    import_module(PACKAGE)  # once, before the processes start

    results = []
    if options.find:
        chosen = [each for each in chosen if not {"setting", "instance"} & set(each) and each["kind"] not in TRUE]
    tasks = [(each, not options.without_stored, not options.quick, options.find) for each in chosen]
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
        for done in pool.imap_unordered(safely, tasks):
            results.append(done)
            if options.json:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done) + "\n")
            print(f"\r{len(results)} of {len(chosen)}", end="", file=sys.stderr, flush=True)
            if options.find:
                given = {
                    key: done[key] for key in ("claim", "new", "instance", "setting", "why", "trouble") if key in done
                }
                print(json.dumps(given))
    print(file=sys.stderr)
    if options.find:
        return 0
    wrong = [each for each in results if "trouble" in each or (each["false"] is False and each["kind"] not in TRUE)]
    for each in wrong:
        print(f"NOT VALID {each['claim']}, {each['new']!r}: {each.get('trouble', 'its instance does not refute it')}")
    results = [each for each in results if each not in wrong]
    print(table(results))
    for each in results:
        if each["full"] == (each["kind"] == "true variant"):
            word = "false alarm" if each["full"] else "unnoticed"
            change = f"{each['old']!r} -> {each['new']!r}"
            print(f"{word}: {each['claim']} ({each['kind']}), {change}; {each.get('why', '')} {each['how']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
