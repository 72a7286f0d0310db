"""What goes wrong on the wire, in words of our own: the libraries' quote servers, and proxies' passwords."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import httpcore
import httpx
from socksio.exceptions import SOCKSError

from pegas_memory.errors import FetchFailed, FetchTimeout
from pegas_memory.ingest.download.connection import CheckedBackend

PROXY_HINT = "Check PROXY_URL, or pass `snippet` with the text you have."
_STATUS = re.compile(r"(\d{3})\b")


@contextmanager
def told(timeout: float, backend: CheckedBackend) -> Iterator[None]:
    """Raises ``FetchTimeout`` and ``FetchFailed`` for what httpx, httpcore and socksio raise."""
    late = f"The address did not answer in full within {timeout:g} s."
    try:
        yield
    except (httpx.TimeoutException, httpcore.TimeoutException) as error:
        raise FetchTimeout(late) from error
    except (httpcore.ProxyError, SOCKSError) as error:
        if backend.late:
            raise FetchTimeout(late) from None
        raise FetchFailed(f"The proxy did not let the fetch through: {_proxy_reason(error)}.", PROXY_HINT) from None
    except (httpx.HTTPError, httpx.StreamError, httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        if backend.late:
            raise FetchTimeout(late) from error
        raise FetchFailed(f"The address could not be fetched: {_reason(error)}.") from error


def refused(status: int, proxied: bool) -> FetchFailed:
    """The failure that a status of 400 and up is."""
    if status == 407 and proxied:
        return FetchFailed(f"The proxy did not let the fetch through: {_WANTS_LOGIN}.", PROXY_HINT)
    return FetchFailed(f"The server answered {_named(status)}.")


_WANTS_LOGIN = "it wants a name and password that fit (407)"


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _proxy_reason(error: Exception) -> str:
    status = _STATUS.match(str(error))
    if status is not None:
        return _WANTS_LOGIN if status[1] == "407" else f"it answered {_named(int(status[1]))}"
    if isinstance(error, SOCKSError):
        return "it does not speak SOCKS5"
    said = str(error).lower()
    if "auth" in said or "password" in said:
        return "it wants a name and password that fit"
    return "it does not answer" if "not answer" in said else "it could not connect to the address"


def _reason(error: BaseException) -> str:
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 10:
        causes.append(cause)
    for cause in causes:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not valid ({cause.verify_message.rstrip('.')})"
            case ssl.SSLError():
                return "no secure connection could be made"
            case ConnectionRefusedError():
                return "the connection was refused"
            case OSError() if cause.strerror:
                return cause.strerror.lower()
    match error:
        case httpcore.ConnectError():
            return str(error)
        case httpcore.ProtocolError() | httpx.ProtocolError():
            return "it does not answer in proper HTTP, or its answer is cut off or too large in its headers"
        case _:
            return type(error).__name__
