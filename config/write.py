"""Write what follows from the settings: the schema, config.yaml and the table of README.md.

`python config/write.py` writes them; with --check it lists those that are not up to date, and ends
with status 1 if there are some.
"""

import json
import sys
from pathlib import Path

import yaml

from unglow.cli.init import config_text
from unglow.core.settings import schema_of
from unglow.workflow.samples.naming import NAME_RULES
from unglow.workflow.settings import Settings

HERE = Path(__file__).parent
HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "unglow configuration",
    "description": (
        "What unglow computes. Every key has a default, so the file is optional. Threads, cores "
        "and memory limits of the machine belong to a profile; the one exception is "
        "memory_per_job, the budget of every job."
    ),
}
MADE = "# Written by `make settings` from src/unglow/workflow/settings.py: change it there.\n"
START = "| key | default | meaning |\n|---|---|---|\n"
NAMES = "| pre-stain image | post-stain image | rule |\n|---|---|---|\n"


def schema_text():
    """Return the JSON schema as YAML."""
    plain = json.loads(json.dumps(HEAD | schema_of(Settings) | HEAD))  # without aliases
    return MADE + yaml.safe_dump(plain, sort_keys=False, width=100, allow_unicode=True)


def rows(schema, where=""):
    """Yield a row of the table for each key, with the first sentence of its description."""
    for name, rule in schema["properties"].items():
        about = rule["description"].partition(". ")[0].removesuffix(".") + "."
        if rule.get("properties"):
            yield f"| **`{where}{name}`** | | {about} |\n"
            yield from rows(rule, f"{where}{name}.")
        else:
            yield f"| `{where}{name}` | `{json.dumps(rule['default'])}` | {about} |\n"


def page_text(text):
    """Return the page with its tables replaced: the keys, and the ways to name images."""
    names = (f"| `{rule.pre}` | `{rule.post}` | {rule.about} |\n" for rule in NAME_RULES)
    for head, made in ((START, rows(schema_of(Settings))), (NAMES, names)):
        before, rest = text.split(head)
        text = before + head + "".join(made) + rest[rest.index("\n\n") + 1 :]
    return text


def main():
    """Write the files, or say which are not up to date; return the exit status."""
    page = HERE / "README.md"
    texts = {
        HERE / "schemas" / "config.schema.yaml": schema_text(),
        HERE / "config.yaml": config_text("raw"),
        page: page_text(page.read_text(encoding="utf-8")),
    }
    stale = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path}: run `make settings`" if "--check" in sys.argv else f"{path} written")
        if "--check" not in sys.argv:
            path.write_text(texts[path], encoding="utf-8")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
