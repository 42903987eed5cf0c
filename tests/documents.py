"""Write each role's README.md from what it says of itself in meta/argument_specs.yml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLES = Path(__file__).parents[1] / "roles"
PAGE = """<!-- Written by `make role-readmes` from meta/argument_specs.yml. -->
# gpulab.node.{name}

{title}.

{description}

```yaml
- hosts: gpu-nodes
  become: true
  roles:
    - gpulab.node.{name}
```

{options}"""
TABLE = """| Variable | Type | Default | Meaning |
| --- | --- | --- | --- |
"""


def text(role: Path) -> str:
    """Return the README of a role; role is its directory."""
    main = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]["main"]
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows(main.get("options", {})))
    return PAGE.format(
        name=role.name,
        title=main["short_description"],
        description=_markdown(main.get("description", []), "\n\n"),
        options=TABLE + rows if rows else "It has no variables.\n",
    )


def _rows(options: dict[str, Any], parent: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and meaning of each option, and of what it is made of."""
    for name, option in options.items():
        kind = option["type"] + (f" of {option['elements']}" if "elements" in option else "")
        choices = " \\| ".join(_code(choice) for choice in option.get("choices", ()))
        default = _code(option["default"]) if "default" in option else "*required*" if option.get("required") else ""
        meaning = _markdown(option["description"], "<br>").replace("|", "\\|")
        shown = choices if kind == "str" and choices else f"{kind}: {choices}" if choices else kind
        yield _code(f"{parent}{name}"), shown, default, meaning
        each = "[]" if option.get("type") == "list" else ""
        yield from _rows(option.get("options", {}), f"{parent}{name}{each}.")


def _markdown(description: str | list[str], separator: str) -> str:
    paragraphs = [description] if isinstance(description, str) else description
    return re.sub(r"\b[COV]\((.*?)\)", r"`\1`", separator.join(paragraph.strip() for paragraph in paragraphs))


def _code(value: Any) -> str:
    return f"`{yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]}`"


def main() -> None:
    """Write all of them."""
    for role in sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml")):
        (role / "README.md").write_text(text(role), encoding="utf-8")


if __name__ == "__main__":
    main()
