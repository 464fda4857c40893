"""Parsing of ``--view``: the part that figures show, and their style, for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Action, Namespace

    from xsim_py.report.style import Look
    from xsim_py.report.view import PictureView

_STYLE = (
    "columns=1 (of a journal), size=7x3.5 (inches), font=serif, font_size=9, title=TEXT, labels='X;Y', legend=below"
)


def add_view_option(parser: object, *, parts: bool = False) -> Action:
    """Add the option and return it; with `parts`, it limits a timeline's ranks and time."""
    part = "time=1ms:2ms and ranks=0-7,12 (of the timeline), " if parts else ""
    action: Action = parser.add_argument(  # type: ignore[attr-defined]
        "--view", action="append", default=[], metavar="KEY=VALUE", help=f"style of figures: {part}{_STYLE}; repeatable"
    )
    return action


def picture_view(args: Namespace) -> PictureView | None:
    """Return the requested view, if any."""
    if not args.view:
        return None
    from xsim_py.report.view import PictureView

    try:
        view = PictureView.of(args.view)
    except ConfigError as error:
        raise ConfigError(f"--view {error}") from error
    if view.look.font is not None:
        with view.look.applied():
            pass
    return view


def picture_look(args: Namespace) -> Look | None:
    """Return the requested style, if any, for figures without parts; reject parts of a timeline."""
    view = picture_view(args)
    if view is None:
        return None
    if not view.whole:
        raise ConfigError("--view time= and ranks= select a part of a timeline, and this command draws none")
    return view.look
