"""Print what a directory of installed Python packages contains, as CycloneDX 1.6 JSON: sbom.py DIRECTORY NAME.

NAME is the package that the others are there for. The same packages give the same text: its time is SOURCE_DATE_EPOCH
and its serial number is made of its contents.
"""

import json
import os
import re
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from typing import Any


def normal(name: str) -> str:
    """Return the name as package indexes write it (PEP 503).

    >>> normal("typing_extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def reference(found: Distribution) -> str:
    """Return the package URL, which other entries refer to."""
    return f"pkg:pypi/{normal(found.name)}@{found.version}"


def licences(found: Distribution) -> list[dict[str, Any]]:
    """Return the licences that a package declares: an SPDX expression (PEP 639), else its own words."""
    if expression := field(found, "License-Expression"):
        return [{"expression": expression}]
    words = field(found, "License")
    return [{"license": {"name": words.splitlines()[0]}}] if words else []


def field(found: Distribution, name: str) -> str:
    """Return a field of a package's metadata; '' without it."""
    values: list[str] = found.metadata.get_all(name) or [""]
    return values[0]


def component(found: Distribution, kind: str) -> dict[str, Any]:
    """Return the entry of a package."""
    entry: dict[str, Any] = {"type": kind, "bom-ref": reference(found), "name": found.name, "version": found.version}
    if summary := field(found, "Summary"):
        entry["description"] = summary
    return {**entry, "purl": reference(found), "licenses": licences(found)}


def required(found: Distribution, present: dict[str, Distribution]) -> list[str]:
    """Return references to the packages that this one needs and that are there; those of extras are not."""
    needs = [text for text in found.requires or () if "extra ==" not in text]
    names = {normal(match[0]) for text in needs if (match := re.match(r"[\w.-]+", text))}
    return sorted(reference(present[name]) for name in names & present.keys())


def bill_of_materials(directory: str, name: str, seconds: int) -> dict[str, Any]:
    """Return the document for what is installed in ``directory``. Raises KeyError without the package ``name``."""
    present = {normal(found.name): found for found in distributions(path=[directory])}
    main, others = present[name], [present[key] for key in sorted(present) if key != name]
    contents = {
        "components": [component(found, "library") for found in others],
        "dependencies": [{"ref": reference(f), "dependsOn": required(f, present)} for f in (main, *others)],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([reference(main), contents], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component(main, "application"),
        },
        **contents,
    }


if __name__ == "__main__":
    found = bill_of_materials(sys.argv[1], sys.argv[2], int(os.environ["SOURCE_DATE_EPOCH"]))
    sys.stdout.write(json.dumps(found, indent=2, sort_keys=True) + "\n")
