//! EDNS options: NSID (RFC 5001), EXPIRE (RFC 7314), keepalive (RFC 7828), cookies (RFC 7873, RFC 9018),
//! padding (RFC 7830, RFC 8467), extended errors (RFC 8914), ZONEVERSION (RFC 9660).

use answer::CookieSecrets;
use answer::Transport::Udp;
use answer::{AnswerConfig, Transport, ZoneState};
use wire::message::{Edns, EdnsOption, Message, Rcode};

use crate::server::{Server, query};
use crate::subject::{NOW_S, TCP};

const NSID: u16 = 3;
const EXPIRE: u16 = 9;
const COOKIE: u16 = 10;
const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;
const EXTENDED_ERROR: u16 = 15;
const ZONEVERSION: u16 = 19;

const ZONE: &str = "
    a.example. 60 IN SOA ns. host. 16909060 2 3 84281096 5
    a.example. 60 NS ns.
    a.example. 60 A 192.0.2.1
    cut.a.example. 60 NS ns.
    ";

fn server(options: AnswerConfig) -> Server {
    Server::with_options(&[("a.example.", ZONE)], options)
}

/// The answer to a question with one option, and the data of that option in the answer.
fn ask(server: &Server, question: &str, code: u16, data: &[u8], transport: Transport) -> (Message, Option<Vec<u8>>) {
    let options = vec![EdnsOption { code, data: data.to_vec() }];
    let got = server.ask(&query(question).with_edns(Edns { options, ..Edns::default() }), transport);
    let data = option(&got, code);
    (got, data)
}

fn option(message: &Message, code: u16) -> Option<Vec<u8>> {
    let options = &message.edns.as_ref().expect("OPT answers OPT").options;
    let mut same = options.iter().filter(|option| option.code == code);
    let data = same.next().map(|option| option.data.clone());
    assert!(same.next().is_none(), "option {code} occurs twice");
    data
}

//----------- NSID -------------------------------------------------------------

#[test]
fn rfc_5001_2_2_nsid_is_sent_on_request() {
    let server = server(AnswerConfig { nsid: b"ns7.lab"[..].into(), ..AnswerConfig::default() });
    assert_eq!(ask(&server, "a.example. A", NSID, b"", Udp).1.as_deref(), Some(&b"ns7.lab"[..]));
    assert_eq!(ask(&server, "elsewhere. A", NSID, b"", Udp).1.as_deref(), Some(&b"ns7.lab"[..]), "also when refusing");
    let unasked = server.ask(&query("a.example. A").with_edns(Edns::default()), Udp);
    assert_eq!(option(&unasked, NSID), None);
}

#[test]
fn rfc_5001_2_2_without_an_identifier_no_nsid() {
    assert_eq!(ask(&server(AnswerConfig::default()), "a.example. A", NSID, b"", Udp).1, None);
}

//----------- EXPIRE -----------------------------------------------------------

#[test]
fn rfc_7314_3_1_a_primary_sends_the_expire_field_of_the_soa() {
    let server = server(AnswerConfig::default());
    let (_, expire) = ask(&server, "a.example. SOA", EXPIRE, b"", Udp);
    assert_eq!(expire, Some(84_281_096_u32.to_be_bytes().to_vec()));
    assert_eq!(ask(&server, "a.example. A", EXPIRE, b"", Udp).1, None, "RFC 7314 2: for SOA, AXFR, IXFR");
}

#[test]
fn rfc_7314_3_2_a_secondary_sends_the_seconds_until_the_zone_expires() {
    let server = server(AnswerConfig::default());
    let expire = || {
        ask(&server, "a.example. SOA", EXPIRE, b"", Udp)
            .1
            .map(|data| u32::from_be_bytes(data.try_into().expect("four octets")))
    };
    for (at_s, expected) in [(NOW_S + 1000, 1000), (NOW_S, 0), (NOW_S - 5, 0)] {
        server.zone("a.example.").set_expiry(at_s);
        assert_eq!(expire(), Some(expected));
    }
}

//----------- keepalive --------------------------------------------------------

#[test]
fn rfc_7828_3_3_1_the_timeout_is_sent_over_tcp() {
    let server = server(AnswerConfig::default());
    let (_, timeout) = ask(&server, "a.example. A", KEEPALIVE, b"", Transport::Tcp { idle_ds: 0x0102 });
    assert_eq!(timeout, Some(vec![1, 2]));
}

#[test]
fn rfc_7828_3_2_1_not_over_udp_and_not_unasked() {
    let server = server(AnswerConfig::default());
    assert_eq!(ask(&server, "a.example. A", KEEPALIVE, b"", Udp).1, None);
    let unasked = server.ask(&query("a.example. A").with_edns(Edns::default()), TCP);
    assert_eq!(option(&unasked, KEEPALIVE), None);
}

//----------- padding ----------------------------------------------------------

const TLS: Transport = Transport::Tls { idle_ds: 100, client_names: &[] };

/// The length of the response to a padded query, with its signature if it is signed.
fn padded_len(server: &Server, question: &str, transport: Transport, more: Option<EdnsOption>) -> usize {
    let padding = EdnsOption { code: PADDING, data: vec![0; 50] };
    let options = more.into_iter().chain([padding]).collect();
    let asked = query(question).with_edns(Edns { options, ..Edns::default() });
    server.exchange(&asked.to_wire(), transport).expect("a response").len()
}

#[test]
fn rfc_8467_4_1_responses_to_padded_queries_have_whole_blocks() {
    let server = server(AnswerConfig { nsid: b"ns7.lab"[..].into(), ..AnswerConfig::default() });
    for question in
        ["a.example. A", "a.example. SOA", "x.cut.a.example. A", "x.a.example. A", "elsewhere. A", "a.example. OPT"]
    {
        for transport in [TLS, Transport::Quic { client_names: &[] }] {
            assert_eq!(padded_len(&server, question, transport, None), 468, "{question}");
        }
        let nsid = EdnsOption { code: NSID, data: Vec::new() };
        assert_eq!(padded_len(&server, question, TLS, Some(nsid)), 468, "{question}");
    }
}

#[test]
fn rfc_8467_4_1_long_responses_are_padded_to_the_next_block_or_the_longest_message() {
    let text = |count: usize| format!("\"{}\" ", "x".repeat(255)).repeat(count);
    let zone =
        format!("{ZONE}\nt2.a.example. 60 TXT {}\nt255.a.example. 60 TXT {}{}\n", text(2), text(255), "y".repeat(194));
    let server = Server::with_options(&[("a.example.", &zone)], AnswerConfig::default());
    assert_eq!(padded_len(&server, "t2.a.example. TXT", TLS, None), 2 * 468);
    assert_eq!(padded_len(&server, "t255.a.example. TXT", TLS, None), 65_535, "140 blocks have 65,520 octets");
}

#[test]
fn rfc_7830_6_plain_transports_get_no_padding() {
    let server = server(AnswerConfig::default());
    for transport in [Udp, TCP] {
        assert_eq!(ask(&server, "a.example. A", PADDING, &[0; 9], transport).1, None);
    }
}

/// The length of a response must not say more where the resolver does not pad its queries, such as one that only tries whether there is
/// TLS (RFC 9539).
#[test]
fn rfc_9539_3_5_rfc_9250_5_4_all_encrypted_responses_are_padded() {
    let server = server(AnswerConfig::default());
    for transport in [TLS, Transport::Quic { client_names: &[] }] {
        for question in ["a.example. A", "a.example. SOA", "x.cut.a.example. A", "x.a.example. A", "elsewhere. A"] {
            let asked = query(question).with_edns(Edns::default()).to_wire();
            assert_eq!(server.exchange(&asked, transport).expect("a response").len(), 468, "{question}");
            let without_edns = server.ask(&query(question), transport);
            assert_eq!(without_edns.edns, None, "RFC 6891 7: no OPT record without one in the query");
        }
    }
}

//----------- cookies ----------------------------------------------------------

const CLIENT_COOKIE: &[u8; 8] = b"\x24\x64\xc4\xab\xcf\x10\xc9\x57";

fn with_cookies() -> Server {
    server(AnswerConfig { cookies: Some(CookieSecrets(vec![[7; 16]])), ..AnswerConfig::default() })
}

#[test]
fn rfc_7873_5_2_3_a_client_cookie_is_answered_with_both() {
    let (got, cookie) = ask(&with_cookies(), "a.example. A", COOKIE, CLIENT_COOKIE, Udp);
    let cookie = cookie.expect("a cookie");
    assert_eq!((got.rcode, got.answer.len()), (Rcode::NOERROR, 1));
    assert_eq!((cookie.len(), &cookie[..8]), (24, &CLIENT_COOKIE[..]));
    assert_eq!(cookie[8..12], [1, 0, 0, 0], "RFC 9018 4.1, 4.2: version 1 and three octets of 0");
}

#[test]
fn rfc_7873_5_2_5_a_valid_server_cookie_is_accepted() {
    let server = with_cookies();
    let cookie = ask(&server, "a.example. A", COOKIE, CLIENT_COOKIE, Udp).1.expect("a cookie");
    let (got, again) = ask(&server, "a.example. A", COOKIE, &cookie, Udp);
    assert_eq!((got.rcode, got.answer.len(), again.map(|it| it.len())), (Rcode::NOERROR, 1, Some(24)));
}

#[test]
fn rfc_7873_5_2_4_a_wrong_server_cookie_brings_a_right_one() {
    let server = with_cookies();
    let right = ask(&server, "a.example. A", COOKIE, CLIENT_COOKIE, Udp).1;
    let forged = [&CLIENT_COOKIE[..], &[9; 16]].concat();
    let (got, cookie) = ask(&server, "a.example. A", COOKIE, &forged, Udp);
    assert_eq!((got.rcode, cookie), (Rcode::NOERROR, right));
}

#[test]
fn rfc_7873_5_2_2_a_cookie_of_a_wrong_length_is_malformed() {
    let server = with_cookies();
    for len in [0, 1, 7, 9, 15, 41] {
        let options = vec![EdnsOption { code: COOKIE, data: vec![7; len] }];
        let got = server.ask(&query("a.example. A").with_edns(Edns { options, ..Edns::default() }), Udp);
        assert_eq!((got.rcode, got.answer.len()), (Rcode::FORMERR, 0), "{len} octets");
    }
}

#[test]
fn rfc_7873_5_2_the_first_of_several_cookies_counts() {
    let options = [&CLIENT_COOKIE[..], &[9; 8], &[9; 3]].map(|data| EdnsOption { code: COOKIE, data: data.to_vec() });
    let asked = query("a.example. A").with_edns(Edns { options: options.to_vec(), ..Edns::default() });
    let got = with_cookies().ask(&asked, Udp);
    assert_eq!((got.rcode, &option(&got, COOKIE).expect("a cookie")[..8]), (Rcode::NOERROR, &CLIENT_COOKIE[..]));
}

/// The answer to a query with this cookie and without a question.
fn ask_for_cookie(server: &Server, cookie: &[u8]) -> Message {
    let mut asked = query("a.example. A");
    asked.questions.clear();
    let options = vec![EdnsOption { code: COOKIE, data: cookie.to_vec() }];
    let got = server.ask(&asked.with_edns(Edns { options, ..Edns::default() }), Udp);
    assert_eq!((got.questions.len(), got.answer.len()), (0, 0));
    got
}

#[test]
fn rfc_7873_5_4_a_query_without_a_question_fetches_a_cookie() {
    let got = ask_for_cookie(&with_cookies(), CLIENT_COOKIE);
    assert_eq!((got.rcode, option(&got, COOKIE).map(|cookie| cookie.len())), (Rcode::NOERROR, Some(24)));
}

#[test]
fn rfc_7873_5_4_a_query_without_a_question_checks_a_cookie() {
    let server = with_cookies();
    let right = option(&ask_for_cookie(&server, CLIENT_COOKIE), COOKIE).expect("a cookie");
    let forged = [&CLIENT_COOKIE[..], &[9; 16]].concat();
    for (cookie, rcode) in [(&right, Rcode::NOERROR), (&forged, Rcode::BADCOOKIE)] {
        let got = ask_for_cookie(&server, cookie);
        assert_eq!((got.rcode, option(&got, COOKIE).as_ref()), (rcode, Some(&right)), "{cookie:?}");
    }
    assert_eq!(
        ask_for_cookie(&self::server(AnswerConfig::default()), &forged).rcode,
        Rcode::NOERROR,
        "cookies are off"
    );
}

#[test]
fn rfc_7873_5_2_1_no_cookie_unasked_or_where_they_are_off() {
    let unasked = with_cookies().ask(&query("a.example. A").with_edns(Edns::default()), Udp);
    assert_eq!(option(&unasked, COOKIE), None);
    assert_eq!(ask(&server(AnswerConfig::default()), "a.example. A", COOKIE, CLIENT_COOKIE, Udp).1, None);
}

//----------- extended errors --------------------------------------------------

#[test]
fn rfc_8914_4_21_a_name_in_no_zone_is_not_authoritative() {
    let server = server(AnswerConfig::default());
    let got = server.ask(&query("elsewhere. A").with_edns(Edns::default()), Udp);
    let error = option(&got, EXTENDED_ERROR).expect("an extended error");
    assert_eq!((got.rcode, &error[..2]), (Rcode::REFUSED, &[0, 20][..]));
    assert_eq!(server.ask(&query("elsewhere. A"), Udp).edns, None, "RFC 8914 3: only where there is EDNS");
}

#[test]
fn rfc_8914_3_a_good_answer_has_no_error() {
    let got = server(AnswerConfig::default()).ask(&query("a.example. A").with_edns(Edns::default()), Udp);
    assert_eq!(option(&got, EXTENDED_ERROR), None);
}

#[test]
fn rfc_8914_4_15_and_4_25_a_zone_without_data_is_not_ready_or_expired() {
    let apex = |name: &str| name.parse().expect("a name");
    let states = [ZoneState::Unavailable(apex("gone.example.")), ZoneState::Expired(apex("old.example."))];
    let server = Server::without_data(states);
    for (name, transport, code) in [
        ("www.gone.example. A", Udp, 14),
        ("www.old.example. A", Udp, 24),
        ("old.example. SOA", Udp, 24),
        ("gone.example. AXFR", TCP, 14),
        ("old.example. AXFR", TCP, 24),
    ] {
        let got = server.ask(&query(name).with_edns(Edns::default()), transport);
        let error = option(&got, EXTENDED_ERROR).expect("an extended error");
        assert_eq!((got.rcode, &error[..2]), (Rcode::SERVFAIL, &[0, code][..]), "{name}");
        assert!(!got.flags.authoritative);
    }
}

//----------- ZONEVERSION ------------------------------------------------------

#[test]
fn rfc_9660_3_2_labels_of_the_zone_type_and_serial() {
    let server = server(AnswerConfig::default());
    let version = Some(vec![2, 0, 1, 2, 3, 4]);
    assert_eq!(ask(&server, "a.example. A", ZONEVERSION, b"", Udp).1, version);
    assert_eq!(ask(&server, "gone.a.example. A", ZONEVERSION, b"", Udp).1, version, "also in denials");
}

#[test]
fn rfc_9660_3_2_not_for_what_is_in_no_zone_and_not_unasked() {
    let server = server(AnswerConfig::default());
    assert_eq!(ask(&server, "elsewhere. A", ZONEVERSION, b"", Udp).1, None);
    let unasked = server.ask(&query("a.example. A").with_edns(Edns::default()), Udp);
    assert_eq!(option(&unasked, ZONEVERSION), None);
}

//----------- all together -----------------------------------------------------

#[test]
fn options_leave_room_for_no_more_than_the_payload() {
    let options = AnswerConfig {
        nsid: vec![b'n'; 200].into(),
        cookies: Some(CookieSecrets(vec![[7; 16]])),
        ..AnswerConfig::default()
    };
    let texts: String = (0..6).map(|n| format!("a.example. 60 TXT \"{n}{}\"\n", "x".repeat(40))).collect();
    let server = Server::with_options(&[("a.example.", &(ZONE.to_string() + &texts))], options);
    let asked = [(NSID, &b""[..]), (COOKIE, CLIENT_COOKIE), (ZONEVERSION, b"")]
        .map(|(code, data)| EdnsOption { code, data: data.to_vec() });
    let edns = Edns { payload: 512, options: asked.to_vec(), ..Edns::default() };
    let bytes = server.exchange(&query("a.example. TXT").with_edns(edns).to_wire(), Udp).expect("an answer");
    let got = Message::parse(&bytes).expect("a well-formed answer");
    assert!(bytes.len() <= 512 && got.flags.truncated, "{} octets", bytes.len());
    assert_eq!(option(&got, NSID).map(|nsid| nsid.len()), Some(200));
}
