"""Numbers of the DNS protocol: types, classes, RCODEs and flag bits."""

A, NS, CNAME, SOA, MX, TXT, AAAA = 1, 2, 5, 6, 15, 16, 28
DNAME, OPT, APL, DS, RRSIG, NSEC, DNSKEY, NSEC3, NSEC3PARAM = 39, 41, 42, 43, 46, 47, 48, 50, 51
AXFR, ANY = 252, 255
IN, CH = 1, 3
NOERROR, SERVFAIL, NXDOMAIN, YXDOMAIN = 0, 2, 3, 6
# Flag bits of the header (RFC 1035 4.1.1, RFC 2535 6.1) and of the OPT TTL (RFC 3225 3).
QR, AA, TC, RD, RA, Z, AD, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010
DO = 0x8000
