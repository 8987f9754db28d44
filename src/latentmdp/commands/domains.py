"""`latentmdp domains [NAME]`: the built-in families of models."""

from typing import TYPE_CHECKING, Annotated, Any

from latentmdp.commands import options as option
from latentmdp.commands.common import complete_domain
from latentmdp.commands.output import print_json, print_table, print_text
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.builtin_domains import Domain


def domains_command(
    name: Annotated[
        str | None,
        option.argument("NAME", "One domain, in full.", autocompletion=complete_domain),
    ] = None,
    json: option.AsJson = False,
) -> None:
    """List the built-in domains, or describe one and its keys."""
    from latentmdp.builtin_domains import DOMAINS

    if name is not None and name not in DOMAINS:
        raise ModelError(f"unknown domain {name!r}; known domains: {', '.join(DOMAINS)}")
    chosen = list(DOMAINS.values()) if name is None else [DOMAINS[name]]
    if json:
        print_json({"domains": [_facts(domain) for domain in chosen]})
    elif name is not None:
        _print_one(chosen[0])
    else:
        for domain in chosen:
            _print_summary(domain)
        print("Details: latentmdp domains NAME. One model: latentmdp show NAME:key=value,...")


def _print_summary(domain: "Domain") -> None:
    print_text(f"{domain.name}: {domain.summary}")
    width = max(len(key.name) for key in domain.keys)
    for key in domain.keys:
        what = f"{key.default_as_text()} [{key.bounds_as_text()}] {key.meaning}"
        print_text(f"  {key.name.ljust(width)}  {what}")
    print()


def _print_one(domain: "Domain") -> None:
    print_text(domain.description)
    print()
    rows = [
        (key.name, key.default_as_text(), key.bounds_as_text(), key.meaning) for key in domain.keys
    ]
    print_table(("key", "default", "allowed", "meaning"), rows)


def _facts(domain: "Domain") -> dict[str, Any]:
    keys = [
        {
            "key": key.name,
            "default": key.default_as_text(),
            "allowed": key.bounds_as_text(),
            "meaning": key.meaning,
        }
        for key in domain.keys
    ]
    return {"name": domain.name, "description": domain.description, "keys": keys}
