"""The rules that an answer can break by itself: a table, and what was found to break one."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Rule(Enum):
    """What is wrong, and the RFC that says so."""

    SILENT = "no answer", "8906 3.1"
    MALFORMED = "the answer is no DNS message", "1035 4.1"
    RULING = "a wrong outcome for an odd message", "see malformed.py"
    FLAGS = "a flag is not as it must be", "1035 4.1.1, 4035 3.1.6"
    QUESTION = "the question does not come back octet for octet", "1035 4.1.1, 5452 9.1"
    EDNS = "OPT or DO in one of query and answer only", "6891 6.1.1, 3225 3"
    SIZE = "more octets than the client has room for", "6891 6.2.3"
    TC_OVER_TCP = "TC over TCP", "2181 9"
    TWICE = "a record twice in a section", "2181 5"
    NOT_THE_SET = "a set is not that of the zone", "2181 5, 9"
    TTL = "a TTL that the zone does not have", "2181 5.2"
    SIGNATURE_TTL = "a set and its signatures have several TTLs", "4034 3"
    DNSSEC_WITHOUT_DO = "a record of DNSSEC without DO", "3225 3"
    GLUE = "an address of an in-domain server is missing without TC", "9471 3.1"
    SOA_TTL = "the TTL of the SOA is not that of a negative answer", "2308 3"
    NO_SOA = "a negative answer without SOA", "2308 3"
    FOREIGN_SOA = "the SOA is not of the zone of the name", "2308 3"
    UNSIGNED = "a set of a signed zone without RRSIG", "4035 3.1.1"
    WITHOUT_SET = "an RRSIG without the set it covers", "4035 3.1.1"
    INVALID = "a signature does not verify", "4035 5.3.3"
    WILDCARD = "nothing proves that the wildcard may answer", "4035 3.1.3.3, 5155 7.2.6"
    NO_NAME = "nothing proves that the name does not exist", "4035 3.1.3.2, 5155 7.2.2"
    NO_DATA = "nothing proves that there is no such data", "4035 3.1.3.1, 5155 7.2.3 to 7.2.5"
    NO_DS = "neither DS nor a proof that there is none", "4035 3.1.4, 5155 7.2.7"

    @property
    def sentence(self) -> str:
        return self.value[0]

    @property
    def rfc(self) -> str:
        return self.value[1]


# What keeps a validator from believing a negative answer, or one made from a wildcard.
PROOFS = frozenset({Rule.WILDCARD, Rule.NO_NAME, Rule.NO_DATA, Rule.NO_DS})


class Fault(NamedTuple):
    """A rule broken by one answer, and where in it."""

    rule: Rule
    about: str = ""

    def __str__(self) -> str:
        return f"{self.rule.sentence}{': ' + self.about if self.about else ''} (RFC {self.rule.rfc})"
