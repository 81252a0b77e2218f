"""Rules on what must not be trained on: secrets, and personal data of people.

Patterns with check digits where there are any. A reason says what was found and where, never the
value: reasons end up in metrics and reports.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping

from envace.filters.funnel import Rule
from envace.trajectory import Message, Trajectory


def _luhn(number: str) -> bool:
    """The check digit of payment cards (ISO/IEC 7812)."""
    digits = [int(character) for character in reversed(number) if character.isdecimal()]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return len(set(digits)) > 1 and (sum(digits[::2]) + doubled) % 10 == 0


def _iban(number: str) -> bool:
    """The check digits of bank accounts (ISO 13616)."""
    plain = number.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def _resident(number: str) -> bool:
    """The check digit of Chinese resident identity numbers (GB 11643)."""
    total = sum(int(digit) * 2 ** (17 - place) for place, digit in enumerate(number[:17]))
    return "10X98765432"[total % 11] == number[17].upper()


def _public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


def _always(_: str) -> bool:
    return True


Pattern = tuple[str, Callable[[str], bool]]
"""A regular expression, and what a match must pass besides."""

SECRETS: dict[str, Pattern] = {
    "a private key": (r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----", _always),
    "an AWS key": (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", _always),
    "a GitHub token": (r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})\b", _always),
    "a Slack token": (r"\bxox[abeprs]-[A-Za-z0-9-]{20,}", _always),
    "a Google key": (r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])", _always),
    "a Stripe key": (r"\b[rs]k_live_[0-9A-Za-z]{20,}", _always),
    "an API key": (r"\bsk-(?:[a-z]+-)*[A-Za-z0-9_]{32,}", _always),
    "a hub token": (r"\bhf_[A-Za-z]{30,}\b", _always),
    "a JSON web token": (r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}", _always),
    "a password in a URL": (r"\b[a-z][a-z+]{2,15}://[^\s/:@\"']+:[^\s/:@\"'<>{}$]{3,}@[\w.-]+", _always),
}
"""What grants access, by name; prefixes are those that the issuers publish."""

PERSONAL: dict[str, Pattern] = {
    "an e-mail address": (r"\b[\w.+-]+@(?!example\.)[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b", _always),
    "a payment card": (r"(?<![\d.-])[3-6](?:[ -]?\d){12,18}(?![\d.-])", _luhn),
    "a bank account": (r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b", _iban),
    "a Chinese identity number": (r"(?<!\d)[1-9]\d{5}(?:19|20)\d{9}[\dXx](?!\d)", _resident),
    "a US social security number": (
        r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\d-])",
        _always,
    ),
    "a phone number": (
        r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)|\d)(?:[ .-]?\d){6,12}"
        r"|\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4}|1[3-9]\d{9})(?![\w-])",
        _always,
    ),
    "a public IP address": (r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])", _public),
}
"""What points to a person, by name."""


def secrets() -> Rule:
    """A rule that refuses keys, tokens and passwords, wherever they stand."""
    return _refuse(SECRETS, skip=())


def personal(allow: tuple[str, ...] = ()) -> Rule:
    """A rule that refuses personal data.

    Args:
        allow: Kinds of `PERSONAL` that are let through, for data in which they are made up.
    """
    return _refuse(PERSONAL, skip=allow)


def _refuse(patterns: Mapping[str, Pattern], skip: tuple[str, ...]) -> Rule:
    compiled = {
        name: (re.compile(text), sound) for name, (text, sound) in patterns.items() if name not in skip
    }

    def rule(trajectory: Trajectory) -> str | None:
        for number, message in enumerate(trajectory.messages):
            text = _whole(message)
            for name, (pattern, sound) in compiled.items():
                if any(sound(match.group()) for match in pattern.finditer(text)):
                    return f"message {number}: {name} in the {message.role} turn"
        return None

    return rule


def _whole(message: Message) -> str:
    return "\n".join([message.content, *(call.text() for call in message.tool_calls)])
