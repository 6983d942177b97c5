"""The rules that a response can violate regardless of what other servers send, and the violations found."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Rule(Enum):
    """How a response violates the rule, and the RFC section that states it."""

    NO_RESPONSE = "no response", "8906 3.1"
    MALFORMED = "the response is not a well-formed DNS message", "1035 4.1"
    OUTCOME = "unacceptable outcome for an unusual query", "see malformed_queries.py"
    FLAGS = "a header flag is wrong", "1035 4.1.1, 4035 3.1.6"
    QUESTION = "the question section is not an exact copy", "1035 4.1.1, 5452 9.1"
    EDNS = "OPT or DO is in only one of query and response", "6891 6.1.1, 3225 3"
    SIZE = "the response exceeds the client's maximum size", "6891 6.2.3"
    TC_OVER_TCP = "TC over TCP", "2181 9"
    DUPLICATE_RECORD = "a record occurs twice in a section", "2181 5"
    WRONG_RRSET = "an RRset is not that of the zone", "2181 5, 9"
    TTL = "a TTL is not in the zone", "2181 5.2"
    SIGNATURE_TTL = "the TTLs of an RRset and its RRSIGs differ", "4034 3"
    DNSSEC_WITHOUT_DO = "a DNSSEC record in a response to a query without DO", "3225 3"
    MISSING_GLUE = "an in-domain glue address is missing without TC", "9471 3.1"
    SOA_TTL = "the SOA TTL is not the negative TTL", "2308 3"
    MISSING_SOA = "a negative response without SOA", "2308 3"
    WRONG_SOA = "the SOA belongs to another zone", "2308 3"
    UNSIGNED_RRSET = "an RRset of a signed zone without RRSIG", "4035 3.1.1"
    RRSIG_WITHOUT_RRSET = "an RRSIG without the RRset it covers", "4035 3.1.1"
    BAD_SIGNATURE = "a signature does not verify", "4035 5.3.3"
    WILDCARD_UNPROVED = "no proof that the wildcard applies", "4035 3.1.3.3, 5155 7.2.6"
    NXDOMAIN_UNPROVED = "no proof that the name does not exist", "4035 3.1.3.2, 5155 7.2.2"
    NODATA_UNPROVED = "no proof that the type does not exist", "4035 3.1.3.1, 5155 7.2.3 to 7.2.5"
    NO_DS_UNPROVED = "neither DS nor a proof of its absence", "4035 3.1.4, 5155 7.2.7"

    @property
    def sentence(self) -> str:
        return self.value[0]

    @property
    def rfc(self) -> str:
        return self.value[1]


# Without these proofs, a validator rejects a negative or wildcard answer.
PROOF_RULES = frozenset({Rule.WILDCARD_UNPROVED, Rule.NXDOMAIN_UNPROVED, Rule.NODATA_UNPROVED, Rule.NO_DS_UNPROVED})


class Violation(NamedTuple):
    """A rule that one response violates; `about` names the record, flag or value."""

    rule: Rule
    about: str = ""

    def __str__(self) -> str:
        return f"{self.rule.sentence}{': ' + self.about if self.about else ''} (RFC {self.rule.rfc})"
