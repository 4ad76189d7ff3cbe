"""The commands that print a run's privacy statement and its model card, and sign the first."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspd.cli.console import PlainConsole
from fedspd.cli.door import for_programs
from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.results.selection import Selection

out, err = PlainConsole(), PlainConsole(stderr=True)

EXAMPLES = """
Examples:

- `fedspd statement runs/first`

- `fedspd statement runs/first --html --out statement.html`

- `fedspd statement runs/first --declare declared.toml --sign site.key`

- `fedspd statement runs/first --verify site.key.pub`

- `fedspd statement results --ledger ledger.db --sign site.key`
"""
CARD_EXAMPLES = """
Examples:

- `fedspd card runs/first`

- `fedspd card runs/first --html --out card.html`
"""
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]
AsHtml = Annotated[bool, typer.Option("--html", help="one page of HTML that needs nothing else")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Markdown, the default")]
Target = Annotated[Path | None, typer.Option("--out", help="a new file to write it to; default: print it")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=EXAMPLES)(statement)
    app.command(epilog=CARD_EXAMPLES)(card)


def statement(
    run: RunArgument,
    html: AsHtml = False,
    markdown: AsMarkdown = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, as it is filed")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="a draft of tier 3 for the registry of deployments, JSON that is YAML")
    ] = False,
    target: Target = None,
    ledger: Annotated[
        Path | None, typer.Option(help="tell the life of the budget by this ledger: a site's own, or that of --ledger")
    ] = None,
    declare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a TOML file with what people declare, under [statement]")
    ] = None,
    sign: Annotated[Path | None, typer.Option(metavar="KEY", help="sign statement and ledger head by this key")] = None,
    verify: Annotated[
        str | None, typer.Option(metavar="PUBLICKEY", help="check the signature by this key, a file or its line")
    ] = None,
) -> None:
    """Print what a run claims about privacy, what the claim rests on, and what it does not cover; sign it."""
    form = one_form({"--html": html, "--markdown": markdown, "--json": as_json, "--registry": registry})
    if verify is not None:
        if any((form, target, ledger, declare, sign)):
            raise InputError("expected --verify alone, got other options beside it; leave them out.")
        _verify(run, verify)
        return
    found = _up_to_date(run, ledger, declare)
    warning = warn(run, found, refused="--sign" if sign else form if registry else "")
    if sign is not None:
        out.print(f"Signed by {_signed(run, sign)}.", highlight=False)
        if not form and target is None:
            return
    write_out(_formed(found, form, warning), target)


def card(
    run: RunArgument,
    html: AsHtml = False,
    markdown: AsMarkdown = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON")] = False,
    target: Target = None,
) -> None:
    """Print the card of a run's model: intended use, data, measures by subgroup, limits."""
    from fedspd.report.statement import card as told
    from fedspd.report.statement.html import sections_html
    from fedspd.report.statement.markdown import sections_markdown
    from fedspd.results import read_run, to_json
    from fedspd.statement import card_of

    form = one_form({"--html": html, "--markdown": markdown, "--json": as_json})
    stated = _up_to_date(run, None, None)
    found, warning = card_of(read_run(run), stated), warn(run, stated)
    title, lead, sections = told.card_title(found), told.card_lead(found), told.card_sections(found)
    lead = f"{warning} {lead}".lstrip()
    match form:
        case "--json":
            content = to_json(found) + "\n"
        case "--html":
            content = sections_html(title, lead, sections, told.FOOT)
        case _:
            content = sections_markdown(title, sections, lead)
    write_out(content, target)


def warn(run: Path, statement: Any, refused: str = "", choice: "Selection | None" = None) -> str:
    """Say that a signed statement leaves out later releases, here and to whoever reads what is made of it.

    Args:
        refused: the option that must not be given with such a statement.
        choice: between this run and others, that another folder keeps.
    """
    from fedspd.results.outdated import outdated
    from fedspd.results.statement import SIGNATURE

    warning = outdated(run, statement, choice)
    if warning and refused:
        raise InputError(
            f"{refused} needs a statement of all releases, got one that was signed before some. {warning} Delete "
            f"{run / SIGNATURE} first, and name the ledger: `fedspd statement {run} --ledger LEDGER`."
        )
    if warning:
        err.print(warning, highlight=False, markup=False)
    return warning


def one_form(asked: dict[str, bool]) -> str:
    """The form that was asked for; none or one."""
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise InputError(f"expected one form, got {' and '.join(chosen)}; leave one of them out.")
    return chosen[0] if chosen else ""


def write_out(content: str, target: Path | None) -> None:
    """Print it, or write a new file."""
    from fedspd.results import NewFile

    if target is None:
        for_programs().write(content)
        return
    NewFile(target).write(content.encode())
    out.print(f"Written to {target}", highlight=False)


def _up_to_date(run: Path, ledger: Path | None, declare: Path | None) -> Any:
    """The statement with what came after it; written back where that changed it."""
    from fedspd.privacy.ledger import Ledger
    from fedspd.results import read_statement, write_statement
    from fedspd.results.outdated import left_out
    from fedspd.results.statement import is_signed
    from fedspd.statement import with_beside, with_declared, with_ledger

    filed = read_statement(run)
    if is_signed(run):
        if ledger is not None or declare is not None:
            raise InputError(
                f"a signed statement stays as it is, got --ledger or --declare for {run}; delete its statement.sig "
                "first, and sign anew."
            )
        return filed
    found = with_beside(filed, run)
    if ledger is not None:
        name = filed["run"]["name"] or (filed["ledger"] or {}).get("run")
        if name is None:
            raise InputError(
                f"expected a run that was charged to a ledger, got {run}, which was not; leave out --ledger."
            )
        with Ledger(ledger) as opened:
            found = with_ledger(found, opened, name)
    if missing := left_out(run, found):
        raise InputError(
            f"expected a statement of all releases of {run}, got one without {missing}; name the ledger that was "
            f"charged: `fedspd statement {run} --ledger LEDGER`."
        )
    if declare is not None:
        found = with_declared(found, declare)
    if found != filed:
        write_statement(run, found)
    return found


def _formed(found: Any, form: str, warning: str) -> str:
    from fedspd.report.statement.html import statement_html
    from fedspd.report.statement.markdown import statement_markdown
    from fedspd.results.statement import statement_text
    from fedspd.statement import registry_text

    match form:
        case "--html":
            return statement_html(found, warning)
        case "--json":
            return statement_text(found)
        case "--registry":
            return registry_text(found)
    return statement_markdown(found, warning)


def _signed(run: Path, key: Path) -> str:
    require_keys()
    from fedspd.deploy.protocol.filed import sign_statement
    from fedspd.deploy.protocol.identity import read_identity

    return sign_statement(run, read_identity(key))


def _verify(run: Path, key: str) -> None:
    require_keys()
    from fedspd.deploy.protocol.filed import public_key, verify_statement
    from fedspd.results import read_statement

    public = public_key(key)
    verify_statement(run, public)
    out.print(f"The statement in {run} is as the owner of {public.fingerprint} signed it.", highlight=False)
    warn(run, read_statement(run))


def require_keys() -> None:
    """Refuse to go on without the library for keys, which deployment brings."""
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise InputError('signatures need the library cryptography, got none; pip install "fedspd[flower]".')
