"""Whether the libraries of the server are installed."""

from __future__ import annotations

from xmen.errors import MissingExtraError

BROUGHT = ("fastapi", "starlette", "pydantic", "uvicorn", "anyio", "h11")  # by the extra


def require_extra() -> None:
    """MissingExtraError where they are not."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in BROUGHT:
            raise
        raise MissingExtraError(error.name or "fastapi", extra="studio", needed_for="xmen studio") from None
