//! Text, octets and canonical text of every type, mostly from the RFCs that define them.

use wire::Rtype;
use wire::rdata::{Form, check, fields_of, names};

use super::{hex, printed, rdata};

/// Type, text, octets, and the canonical text if it differs.
///
/// The octets are those of BIND 9.18 and dnspython 2.9; for what neither supports (`IPSECKEY` without a key, newer service
/// parameters, CLA, IPN, LOC in lower case), they follow the RFCs.
#[rustfmt::skip]
pub const RECORDS: &[(&str, &str, &str, &str)] = &[
    ("A", "192.0.2.1", "c0000201", ""),
    ("A", "255.255.255.255", "ffffffff", ""),
    ("NS", "a.example.", "0161076578616d706c6500", ""),
    ("NS", "a", "0161076578616d706c6500", "a.example."),
    ("NS", "@", "076578616d706c6500", "example."),
    ("NS", ".", "00", ""),
    ("NS", "\\097\\.b.", "03612e6200", "a\\.b."),
    ("MD", "a.", "016100", ""),
    ("MF", "a.", "016100", ""),
    ("CNAME", "A.b.", "0141016200", ""),
    ("SOA", "ns.example. root.example. 2026112101 7200 3600 1209600 300", "026e73076578616d706c650004726f6f74076578616d706c650078c4046500001c2000000e10001275000000012c", ""),
    ("SOA", "ns root 0 2H 1h30m 2w 0", "026e73076578616d706c650004726f6f74076578616d706c65000000000000001c20000015180012750000000000", "ns.example. root.example. 0 7200 5400 1209600 0"),
    ("MB", "a.", "016100", ""),
    ("MG", "a.", "016100", ""),
    ("MR", "a.", "016100", ""),
    ("WKS", "10.0.0.1 TCP smtp 0", "0a0000010680000040", "10.0.0.1 6 0 25"),
    ("WKS", "10.0.0.1 icmp 1", "0a0000010140", "10.0.0.1 1 1"),
    ("WKS", "10.0.0.1 17 53", "0a0000011100000000000004", ""),
    ("WKS", "10.0.0.1 17", "0a00000111", ""),
    ("PTR", "a.", "016100", ""),
    ("HINFO", "\"PC\" \"NetBSD 10\"", "025043094e6574425344203130", ""),
    ("HINFO", "PC NetBSD", "025043064e6574425344", "\"PC\" \"NetBSD\""),
    ("MINFO", "a. b.", "016100016200", ""),
    ("MX", "10 mail.example.", "000a046d61696c076578616d706c6500", ""),
    ("MX", "00010 .", "000a00", "10 ."),
    ("TXT", "\"a b\" \"\" \"\\\"\\\\\\000\\255\"", "036120620004225c00ff", ""),
    ("TXT", "a\\032b\\;\\c", "056120623b63", "\"a b;c\""),
    ("RP", "a. b.", "016100016200", ""),
    ("AFSDB", "1 a.", "0001016100", ""),
    ("X25", "311061700956", "0c333131303631373030393536", ""),
    ("ISDN", "\"150862028003217\" \"004\"", "0f31353038363230323830303332313703303034", ""),
    ("ISDN", "\"150862028003217\"", "0f313530383632303238303033323137", ""),
    ("RT", "10 a.", "000a016100", ""),
    ("NSAP", "0x47.0005.80.005a00.0000.0001.e133.ffffff000162.00", "47000580005a0000000001e133ffffff00016200", "0x47000580005A0000000001E133FFFFFF00016200"),
    ("NSAP-PTR", "a.", "016100", ""),
    ("SIG", "NXT 1 3 3600 19960102030405 19951211100908 21435 foo.nil. AAAA", "001e010300000e1030e8a0a530cc034453bb03666f6f036e696c00000000", ""),
    ("KEY", "49152 3 0", "c0000300", ""),
    ("KEY", "256 3 1 AQM=", "010003010103", ""),
    ("NXT", "big.foo.tld. A MX SIG NXT", "0362696703666f6f03746c640040010082", ""),
    ("PX", "10 a. b.", "000a016100016200", ""),
    ("GPOS", "-32.6882 116.8652 10.0", "082d33322e36383832083131362e383635320431302e30", ""),
    ("AAAA", "2001:db8::1", "20010db8000000000000000000000001", ""),
    ("AAAA", "::FFFF:192.0.2.1", "00000000000000000000ffffc0000201", "::ffff:192.0.2.1"),
    ("AAAA", "::", "00000000000000000000000000000000", ""),
    ("AAAA", "1:2:3:4:5:6:7::", "00010002000300040005000600070000", "1:2:3:4:5:6:7:0"),
    ("LOC", "42 21 54 N 71 06 18 W -24m 30m", "0033161389172dd070be15f000988d20", "42 21 54.000 N 71 6 18.000 W -24.00m 30.00m 10000.00m 10.00m"),
    ("LOC", "52 14 05 N 00 08 50 E 10m", "001216138b3556c88008165000989a68", "52 14 5.000 N 0 8 50.000 E 10.00m 1.00m 10000.00m 10.00m"),
    ("LOC", "32 s 116 w 10m 0 0 0.01", "0000001079223000671bee0000989a68", "32 0 0.000 S 116 0 0.000 W 10.00m 0.00m 0.00m 0.01m"),
    ("LOC", "90 N 180 W 42849672.95m 90000000.00m 12m 1.23", "00991312934fd90059604e00ffffffff", "90 0 0.000 N 180 0 0.000 W 42849672.95m 90000000.00m 10.00m 1.00m"),
    ("LOC", "42 21 43.952 N 71 5 6.344 W -100000.00m 1m 200m", "001224138917069070bf2dd800000000", "42 21 43.952 N 71 5 6.344 W -100000.00m 1.00m 200.00m 10.00m"),
    ("EID", "E32C6F78163A9348", "e32c6f78163a9348", ""),
    ("NIMLOC", "32251a 0304", "32251a0304", "32251A0304"),
    ("SRV", "0 1 9 server.example.", "00000001000906736572766572076578616d706c6500", ""),
    ("ATMA", "39.246f.00.0e7c9c031200", "0039246f000e7c9c031200", "39246F000E7C9C031200"),
    ("ATMA", "+358.400.1234567", "0133353834303031323334353637", "+3584001234567"),
    ("NAPTR", "100 50 \"s\" \"http+I2L\" \"\" _http._tcp.gatech.edu.", "00640032017308687474702b49324c00055f68747470045f746370066761746563680365647500", ""),
    ("KX", "10 a.", "000a016100", ""),
    ("CERT", "PGP 0 0 AQ==", "000300000001", "3 0 0 AQ=="),
    ("CERT", "254 1 RSASHA256 AQID", "00fe000108010203", "254 1 8 AQID"),
    ("A6", "64 ::1:2:3:4 subnet", "400001000200030004067375626e6574076578616d706c6500", "64 ::1:2:3:4 subnet.example."),
    ("A6", "0 2001:db8::1", "0020010db8000000000000000000000001", ""),
    ("A6", "128 a.", "80016100", ""),
    ("A6", "61 ::7:0:0:0 a.", "3d000007000000000000016100", ""),
    ("DNAME", "a.", "016100", ""),
    ("APL", "1:192.168.32.0/21 !1:192.168.38.0/28", "00011503c0a82000011c83c0a826", ""),
    ("APL", "1:224.0.0.0/4 2:ff00::/8", "00010401e000020801ff", ""),
    ("APL", "1:0.0.0.0/0 !2:2001:db8::1/128", "000100000002809020010db8000000000000000000000001", ""),
    ("APL", "", "", "\\# 0"),
    ("DS", "60485 5 1 2BB183AF5F22588179A53B0A 98631FAD1A292118", "ec4505012bb183af5f22588179a53b0a98631fad1a292118", "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118"),
    ("DS", "60485 ECDSAP256SHA256 2 d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a", "ec450d02d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a", "60485 13 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A"),
    ("SSHFP", "2 1 123456789abcdef67890123456789abcdef67890", "0201123456789abcdef67890123456789abcdef67890", "2 1 123456789ABCDEF67890123456789ABCDEF67890"),
    ("IPSECKEY", "10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==", "0a0102c0000226010351537986ed35533b6064478eeeb27b5bd74dae149b6e81ba3a0521af82ab7801", ""),
    ("IPSECKEY", "10 0 2 . AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==", "0a0002010351537986ed35533b6064478eeeb27b5bd74dae149b6e81ba3a0521af82ab7801", ""),
    ("IPSECKEY", "10 3 2 mygateway.example.com. AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==", "0a0302096d7967617465776179076578616d706c6503636f6d00010351537986ed35533b6064478eeeb27b5bd74dae149b6e81ba3a0521af82ab7801", ""),
    ("IPSECKEY", "10 2 2 2001:0DB8:0:8002::2000:1 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==", "0a020220010db8000080020000000020000001010351537986ed35533b6064478eeeb27b5bd74dae149b6e81ba3a0521af82ab7801", "10 2 2 2001:db8:0:8002::2000:1 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 1 0 192.0.2.38", "0a0100c0000226", ""),
    ("RRSIG", "A 5 3 86400 20030322173103 20030220173103 2642 example.com. oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTr PYGv07h108dUKGMeDPKijVCHX3DDKdfb+v6o B9wfuh3DTJXUAfI/M0zmO/zz8bW0Rznl8O3t GNazPwQKkRN20XPXV6nwwfoXmJQbsLNrLfkG J5D6fwFm8nN+6pBzeDQfsS3Ap3o=", "00010503000151803e7c9dd73e5510d70a52076578616d706c6503636f6d00a090755ba58d1affa576f4375831b4310920e481218d18a9f164eb3d81afd3b875d3c75428631e0cf2a28d50875f70c329d7dbfafea807dc1fba1dc34c95d401f23f334ce63bfcf3f1b5b44739e5f0eded18d6b33f040a911376d173d757a9f0c1fa1798941bb0b36b2df9062790fa7f0166f2737eea907378341fb12dc0a77a", "A 5 3 86400 20030322173103 20030220173103 2642 example.com. oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTrPYGv07h108dUKGMeDPKijVCHX3DDKdfb+v6oB9wfuh3DTJXUAfI/M0zmO/zz8bW0Rznl8O3tGNazPwQKkRN20XPXV6nwwfoXmJQbsLNrLfkGJ5D6fwFm8nN+6pBzeDQfsS3Ap3o="),
    ("RRSIG", "TYPE731 RSASHA256 0 0 0 4294967295 0 . AA==", "02db08000000000000000000ffffffff00000000", "TYPE731 8 0 0 19700101000000 21060207062815 0 . AA=="),
    ("RRSIG", "SOA 8 1 0 20240229235959 21060207062815 1 a. AAA=", "000608010000000065e11a7fffffffff00010161000000", ""),
    ("NSEC", "host.example.com. A MX RRSIG NSEC TYPE1234", "04686f7374076578616d706c6503636f6d000006400100000003041b000000000000000000000000000000000000000000000000000020", ""),
    ("NSEC", "\\000.a. TYPE65535 NXNAME CAA A", "010001610000114000000000000000000000000000000080010140ff200000000000000000000000000000000000000000000000000000000000000001", "\\000.a. A NXNAME CAA TYPE65535"),
    ("DNSKEY", "256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3 Cbl+BBZH4b/0PY1kxkmvHjcZc8no kfzj31GajIQKY+5CptLr3buXA10h WqTkF7H6RfoRqXQeogmMHfpftf6z Mv1LyBUgia7za6ZEzOJBOztyvhjL 742iU/TpPSEDhm2SNKLijfUppn1U aNvv4w==", "010003050103d22a6ca77f35b893206fd35e4c506d8378843709b97e041647e1bff43d8d64c649af1e371973c9e891fce3df519a8c840a63ee42a6d2ebddbb97035d215aa4e417b1fa45fa11a9741ea2098c1dfa5fb5feb332fd4bc8152089aef36ba644cce2413b3b72be18cbef8da253f4e93d2103866d9234a2e28df529a67d5468dbefe3", "256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8nokfzj31GajIQKY+5CptLr3buXA10hWqTkF7H6RfoRqXQeogmMHfpftf6zMv1LyBUgia7za6ZEzOJBOztyvhjL742iU/TpPSEDhm2SNKLijfUppn1UaNvv4w=="),
    ("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69l OjxfNuVAA2kjEA=", "000201636fc0b8271c82825bb1ac5c41cf5351aa69b4febd94e8f17cdb95000da48c40", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="),
    ("NSEC3", "1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr MX DNSKEY NS SOA NSEC3PARAM RRSIG", "0101000c04aabbccdd14174eb2409fe28bcb4887a1836f957f0a8425e27b000722010000000290", "1 1 12 AABBCCDD 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR NS SOA MX RRSIG DNSKEY NSEC3PARAM"),
    ("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR", "010000000014174eb2409fe28bcb4887a1836f957f0a8425e27b", ""),
    ("NSEC3PARAM", "1 0 12 aabbccdd", "0100000c04aabbccdd", "1 0 12 AABBCCDD"),
    ("NSEC3PARAM", "1 0 0 -", "0100000000", ""),
    ("TLSA", "3 1 1 d2abde240d7cd3ee6b4b28c54df034b9 7983a1d16e8a410e4561cb106618e971", "030101d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971", "3 1 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"),
    ("SMIMEA", "0 0 1 d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971", "000001d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971", "0 0 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"),
    ("HIP", "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc5EMzxTs9LBPCIkOFH8cIvM4p9+LrV4e19WzK00+CI6zBCQTdtWsuxKbWIy87UOoJTwkUs7lBu+Upr1gsNrut79ryra+bSRGQb1slImA8YVJyuIDsj7kwzG7jnERNqnWxZ48AWkskmdHaVDP4BcelrTI3rMXdXF5D rvs1.example.com. rvs2.example.com.", "10020084200100107b1a74df365639cc39f1d57803010001b771ca136e4aeb5ce44333c53b3d2c13c22243851fc708bcce29f7e2eb5787b5f56ccad34f8223acc10904ddb56b2ec4a6d6232f3b50ea094f0914b3b941bbe529af582c36bbadefdaf2adaf9b4911906f5b2522603c615272b880ec8fb930cc6ee39c444daa75b1678f005a4b2499d1da5433f805c7a5ad3237acc5dd5c5e430472767331076578616d706c6503636f6d000472767332076578616d706c6503636f6d00", ""),
    ("HIP", "2 200100107B1A74DF365639CC39F1D578 AwEAAbdx", "10020006200100107b1a74df365639cc39f1d57803010001b771", ""),
    ("NINFO", "\"a\" b", "01610162", "\"a\" \"b\""),
    ("RKEY", "0 255 1 AQID", "0000ff01010203", ""),
    ("TALINK", "a. b.", "016100016200", ""),
    ("CDS", "0 0 0 00", "0000000000", ""),
    ("CDNSKEY", "0 3 0 AA==", "0000030000", ""),
    ("OPENPGPKEY", "AQ ID", "010203", "AQID"),
    ("CSYNC", "66 3 A NS AAAA", "000000420003000460000008", ""),
    ("CSYNC", "0 0", "000000000000", ""),
    ("ZONEMD", "2018031500 1 1 FEBE3D4CE2EC2FFA4BA99D46CD69D6D29711E55217057BEE 7EB1A7B641A47BA7FED2DD5B97AE499FAFA4F22C6BD647DE", "7848b78c0101febe3d4ce2ec2ffa4ba99d46cd69d6d29711e55217057bee7eb1a7b641a47ba7fed2dd5b97ae499fafa4f22c6bd647de", "2018031500 1 1 FEBE3D4CE2EC2FFA4BA99D46CD69D6D29711E55217057BEE7EB1A7B641A47BA7FED2DD5B97AE499FAFA4F22C6BD647DE"),
    ("SVCB", "0 foo.example.com.", "000003666f6f076578616d706c6503636f6d00", ""),
    ("SVCB", "1 .", "000100", ""),
    ("SVCB", "16 foo.example.com. port=53", "001003666f6f076578616d706c6503636f6d00000300020035", ""),
    ("SVCB", "1 foo.example.com. key667=hello", "000103666f6f076578616d706c6503636f6d00029b000568656c6c6f", ""),
    ("SVCB", "1 foo.example.com. key667=\"hello\\210qoo\"", "000103666f6f076578616d706c6503636f6d00029b000968656c6c6fd2716f6f", "1 foo.example.com. key667=hello\\210qoo"),
    ("SVCB", "1 foo.example.com. ipv6hint=\"2001:db8::1,2001:db8::53:1\"", "000103666f6f076578616d706c6503636f6d000006002020010db800000000000000000000000120010db8000000000000000000530001", "1 foo.example.com. ipv6hint=2001:db8::1,2001:db8::53:1"),
    ("SVCB", "1 example.com. ipv6hint=\"2001:db8:122:344::192.0.2.33\"", "0001076578616d706c6503636f6d000006001020010db80122034400000000c0000221", "1 example.com. ipv6hint=2001:db8:122:344::c000:221"),
    ("SVCB", "16 foo.example.org. alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1", "001003666f6f076578616d706c65036f7267000000000400010004000100090268320568332d313900040004c0000201", "16 foo.example.org. mandatory=alpn,ipv4hint alpn=h2,h3-19 ipv4hint=192.0.2.1"),
    ("SVCB", "16 foo.example.org. alpn=\"f\\\\\\\\oo\\\\,bar,h2\"", "001003666f6f076578616d706c65036f7267000001000c08665c6f6f2c626172026832", "16 foo.example.org. alpn=f\\\\\\\\oo\\\\,bar,h2"),
    ("SVCB", "16 foo.example.org. alpn=f\\\\\\092oo\\092,bar,h2", "001003666f6f076578616d706c65036f7267000001000c08665c6f6f2c626172026832", "16 foo.example.org. alpn=f\\\\\\\\oo\\\\,bar,h2"),
    ("HTTPS", "1 . alpn=h2 no-default-alpn ech=AEX+DQ==", "0001000001000302683200020000000500040045fe0d", ""),
    ("HTTPS", "1 . key4=\"\\192\\000\\002\\001\" key65534 key0=\\000\\004", "00010000000002000400040004c0000201fffe0000", "1 . mandatory=ipv4hint ipv4hint=192.0.2.1 key65534"),
    ("SVCB", "1 . dohpath=/dns-query{?dns} ohttp tls-supported-groups=29,23 key65333=\"a \\\"b\\\";(c)\"", "000100000700102f646e732d71756572797b3f646e737d0008000000090004001d0017ff35000961202262223b286329", "1 . dohpath=/dns-query{?dns} ohttp tls-supported-groups=29,23 key65333=a\\032\\\"b\\\"\\;\\(c\\)"),
    ("SVCB", "1 . docpath", "000100000a0000", ""),
    ("SVCB", "1 . docpath=dns,q pvd", "000100000a000603646e730171000b0000", ""),
    ("DSYNC", "CDS NOTIFY 5359 cds-scanner.example.net.", "003b0114ef0b6364732d7363616e6e6572076578616d706c65036e657400", "CDS 1 5359 cds-scanner.example.net."),
    ("DSYNC", "TYPE4711 255 0 a", "1267ff00000161076578616d706c6500", "TYPE4711 255 0 a.example."),
    ("HHIT", "gwppbGludmFsaWQ=", "830a696c696e76616c6964", ""),
    ("BRID", "gwppbGludmFsaWQ=", "830a696c696e76616c6964", ""),
    ("SPF", "\"v=spf1 +mx -all\"", "0f763d73706631202b6d78202d616c6c", ""),
    ("NID", "10 0014:4fff:ff20:ee64", "000a00144fffff20ee64", ""),
    ("NID", "10 14:0:0:1", "000a0014000000000001", "10 0014:0000:0000:0001"),
    ("L32", "10 10.1.2.0", "000a0a010200", ""),
    ("L64", "10 2001:0DB8:1140:1000", "000a20010db811401000", "10 2001:0db8:1140:1000"),
    ("LP", "10 l64-subnet1.example.com.", "000a0b6c36342d7375626e657431076578616d706c6503636f6d00", ""),
    ("EUI48", "00-00-5e-00-53-2a", "00005e00532a", ""),
    ("EUI64", "00-00-5E-EF-10-00-00-2A", "00005eef1000002a", "00-00-5e-ef-10-00-00-2a"),
    ("URI", "10 1 \"ftp://ftp1.example.com/public\"", "000a00016674703a2f2f667470312e6578616d706c652e636f6d2f7075626c6963", ""),
    ("URI", "10 1 a\\\"b", "000a0001612262", "10 1 \"a\\\"b\""),
    ("CAA", "0 issue \"ca.example.net; policy=ev\"", "0005697373756563612e6578616d706c652e6e65743b20706f6c6963793d6576", ""),
    ("CAA", "128 tbs Unknown", "8003746273556e6b6e6f776e", "128 tbs \"Unknown\""),
    ("CAA", "0 iodef \"\"", "0005696f646566", ""),
    ("AVC", "\"app-name:WOLFGANG\"", "116170702d6e616d653a574f4c4647414e47", ""),
    ("DOA", "0 1 2 \"\" aHR0cHM6Ly93d3cuaXNjLm9yZy8=", "0000000000000001020068747470733a2f2f7777772e6973632e6f72672f", ""),
    ("DOA", "4294967295 1 255 \"text/html\" -", "ffffffff00000001ff09746578742f68746d6c", ""),
    ("AMTRELAY", "10 0 1 203.0.113.15", "0a01cb00710f", ""),
    ("AMTRELAY", "128 1 3 amtrelays.example.com.", "808309616d7472656c617973076578616d706c6503636f6d00", ""),
    ("AMTRELAY", "10 1 0 .", "0a80", ""),
    ("AMTRELAY", "10 0 2 2001:db8::15", "0a0220010db8000000000000000000000015", ""),
    ("RESINFO", "qnamemin exterr=15,16,17 infourl=https://resolver.example.com/guide", "08716e616d656d696e0f6578746572723d31352c31362c31372a696e666f75726c3d68747470733a2f2f7265736f6c7665722e6578616d706c652e636f6d2f6775696465", "\"qnamemin\" \"exterr=15,16,17\" \"infourl=https://resolver.example.com/guide\""),
    ("WALLET", "\"BTC\" \"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa\"", "03425443223141317a5031655035514765666932444d505466544c35534c6d7637446976664e61", ""),
    ("CLA", "\"TCP-v4-v6\"", "095443502d76342d7636", ""),
    ("IPN", "977000", "00000000000ee868", ""),
    ("IPN", "18446744073709551615", "ffffffffffffffff", ""),
    ("TA", "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118", "ec4505012bb183af5f22588179a53b0a98631fad1a292118", ""),
    ("DLV", "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118", "ec4505012bb183af5f22588179a53b0a98631fad1a292118", ""),
    ("ALIAS", "a.", "016100", ""),
    ("TYPE731", "\\# 3 abcdef", "abcdef", "\\# 3 ABCDEF"),
    ("TYPE731", "\\# 6 abcd ef 01 23 45", "abcdef012345", "\\# 6 ABCDEF012345"),
    ("TYPE62347", "\\# 0", "", ""),
    ("A", "\\# 4 0A000001", "0a000001", "10.0.0.1"),
    ("SINK", "\\# 1 00", "00", ""),
    ("NULL", "\\# 2 ABCD", "abcd", ""),
];

#[test]
fn text_becomes_octets() {
    for (rtype, text, octets, _) in RECORDS {
        assert_eq!(rdata(rtype, text).map(|rdata| hex(&rdata)).as_deref(), Ok(*octets), "{rtype} {text}");
    }
}

#[test]
fn octets_become_canonical_text() {
    for (rtype, text, _, canonical) in RECORDS {
        let rdata = rdata(rtype, text).expect("right");
        let canonical = if canonical.is_empty() { text } else { canonical };
        assert_eq!(printed(rtype, &rdata), *canonical);
    }
}

#[test]
fn parsed_rdata_passes_the_check() {
    for (rtype, text, ..) in RECORDS {
        let rdata = rdata(rtype, text).expect("right");
        assert_eq!(check(rtype.parse().expect("a type"), &rdata), Ok(()), "{rtype} {text}");
    }
}

#[test]
fn rfc_3597_5_known_types_in_generic_form() {
    for (rtype, text, octets, _) in RECORDS {
        let generic = format!("\\# {} {octets}", octets.len() / 2);
        assert_eq!(super::rdata(rtype, &generic), rdata(rtype, text));
    }
}

#[test]
fn every_type_with_a_text_form_is_tested() {
    for rtype in Rtype::ALL {
        let is_opaque = matches!(fields_of(*rtype), [part] if matches!(part.form, Form::Opaque));
        let is_covered = RECORDS.iter().any(|(covered, ..)| covered.parse() == Ok(*rtype));
        assert!(is_opaque || is_covered, "{rtype}");
    }
}

#[test]
fn names_in_rdata() {
    for (rtype, text, expected) in [
        ("A", "192.0.2.1", &[][..]),
        ("NS", "a.", &["a."]),
        ("SOA", "a. b. 1 2 3 4 5", &["a.", "b."]),
        ("MX", "10 a.b.", &["a.b."]),
        ("NAPTR", "1 2 x y z a.", &["a."]),
        ("RRSIG", "A 8 1 0 0 0 0 a. AAA=", &["a."]),
        ("HTTPS", "1 a. alpn=h2", &["a."]),
        ("A6", "0 ::", &[]),
        ("A6", "1 :: a.", &["a."]),
        ("IPSECKEY", "1 3 0 a.", &["a."]),
        ("IPSECKEY", "1 1 0 192.0.2.1", &[]),
        ("AMTRELAY", "1 1 3 a.", &["a."]),
        ("HIP", "2 AB AAAA a. b. .", &["a.", "b.", "."]),
    ] {
        let rdata = rdata(rtype, text).expect("right");
        let names = names(rtype.parse().expect("a type"), &rdata);
        let names: Vec<String> =
            names.map(|place| wire::Name::from_wire(&rdata[place]).expect("a name").to_string()).collect();
        assert_eq!(names, expected, "{rtype} {text}");
    }
}
