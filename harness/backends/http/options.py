"""The options of an `http` arm, checked before anything is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

APIS = ("openai", "sglang")
SOURCES = ("auto", "ids", "logprobs", "usage")
RESERVED = frozenset(
    {"prompt", "text", "input_ids", "model", "stream", "stream_options", "max_tokens", "n", "stop"}
)
"""Request fields that the harness sets itself, alike for every arm."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class HttpOptions:
    """Where the server is and how it is asked."""

    url: str
    """http://HOST:PORT with an optional path; redirects are not followed, proxies not used."""
    api: Literal["openai", "sglang"] = "openai"
    """openai: /v1/completions; sglang: its native /generate."""
    model: str | None = None
    """The served name; by default the only one that the server has."""
    key_env: str | None = None
    """Name of the environment variable that holds the bearer token; the token is never recorded."""
    stream: bool = True
    """Without streams there is no time to first token: the whole time counts as decoding."""
    retries: int = 0
    """Further tries of a request that got no token; each is counted."""
    token_ids: Literal["auto", "ids", "logprobs", "usage"] = "auto"  # noqa: S105 - no secret
    """Where token counts come from; auto: the first of these that the server offers."""
    fingerprint: bool = True
    """Whether the probe asks for log-probs; switch it off for engines that are not repeatable."""
    hello_timeout_s: float = 60.0
    """Seconds for the generation that shows, at the start, that the server works."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further request fields, such as sampling parameters that only this server knows."""
    attested_patch: str | None = None
    """A patch that no client can see; the user vouches for it."""
    attested_no_cache: bool = False
    """The user vouches that no prefix cache survives a visit."""

    @property
    def attested(self) -> list[str]:
        """What stands on the user's word alone."""
        cache = ["no prefix cache"] if self.attested_no_cache else []
        return cache + ([f"patch {self.attested_patch}"] if self.attested_patch else [])

    def key(self) -> str | None:
        """Return the secret.

        Raises:
            ValueError: the variable is not set.
        """
        if self.key_env is None:
            return None
        found = os.environ.get(self.key_env)
        if not found:
            raise ValueError(f"options.key_env: {self.key_env} is not set in the environment")
        return found


def http_options(values: Mapping[str, Any]) -> HttpOptions:
    """Return checked options.

    Raises:
        ValueError: naming the option, what was found and what is expected.
    """
    given = dict(values)
    attest = _attest(given.pop("attest", {}))
    known = set(HttpOptions.__dataclass_fields__) - {"attested_patch", "attested_no_cache"}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"options.{unknown[0]}: not known; options are {', '.join(sorted(known))}")
    _check_url(given.get("url"))
    _choice(given, "api", APIS)
    _choice(given, "token_ids", SOURCES)
    for name, kind in (("model", str), ("key_env", str), ("stream", bool), ("fingerprint", bool)):
        _typed(given, name, kind)
    retries = given.get("retries", 0)
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 10:
        raise ValueError(f"options.retries: found {retries!r}, expected 0 to 10")
    patience = given.get("hello_timeout_s", 60.0)
    if isinstance(patience, bool) or not isinstance(patience, int | float) or patience <= 0:
        raise ValueError(f"options.hello_timeout_s: found {patience!r}, expected seconds")
    if "key_env" in given and not _NAME.fullmatch(str(given["key_env"])):
        raise ValueError("options.key_env: expected the name of an environment variable")
    _check_extra(given.get("extra", {}))
    return HttpOptions(**{**given, **attest})


def _check_url(url: Any) -> None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise ValueError(f"options.url: found {url!r}, expected http://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise ValueError("options.url: holds credentials; name their variable in key_env instead")


def _choice(given: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> None:
    if name in given and given[name] not in allowed:
        raise ValueError(f"options.{name}: found {given[name]!r}, expected {' or '.join(allowed)}")


def _typed(given: Mapping[str, Any], name: str, kind: type) -> None:
    if name in given and not isinstance(given[name], kind):
        raise ValueError(f"options.{name}: found {given[name]!r}, expected {kind.__name__}")


def _check_extra(extra: Any) -> None:
    if not (isinstance(extra, dict) and all(isinstance(name, str) for name in extra)):
        raise ValueError(f"options.extra: found {extra!r}, expected request fields by name")
    if taken := sorted(RESERVED & set(extra)):
        raise ValueError(f"options.extra.{taken[0]}: is set by the harness, alike for every arm")


def _attest(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict) or set(values) - {"patch", "no_cache"}:
        raise ValueError("options.attest: expected patch: NAME and no_cache: true, or one of them")
    patch, no_cache = values.get("patch"), values.get("no_cache", False)
    if patch is not None and not (isinstance(patch, str) and patch):
        raise ValueError(f"options.attest.patch: found {patch!r}, expected the patch's name")
    if no_cache not in (True, False):
        raise ValueError(f"options.attest.no_cache: found {no_cache!r}, expected true or false")
    return {"attested_patch": patch, "attested_no_cache": bool(no_cache)}
