//! Reads `[[key]]` tables, and checks that zones name only keys that there are.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wire::Name;
use wire::tsig::TsigKey;
use zone::suggest::nearest;
use zone::{FilePosition, Finding, Severity};

use super::configured_key::ConfiguredKey;
use super::keys::TsigKeyTable;
use super::reader::{ConfigReader, Source};
use super::value::{DomainName, FilePath, TsigAlgorithm, TsigSecret, WholeNumber};
use crate::input;
use crate::printable::{path_text, quoted};

/// The most octets of a `secret-file`: a longer one is another file.
const MAX_SECRET_FILE_LEN: u64 = 64 << 10;

impl ConfigReader {
    /// Reads one `[[key]]` table.
    pub(super) fn read_key_table(&mut self, source: &Source<'_>, table: Spanned<DeValue<'_>>) {
        let span = table.span();
        let DeValue::Table(table) = table.into_inner() else {
            return self.error(source, span, "a key is a table", "write [[key]]");
        };
        for (required, example) in [("name", "\"transfer.example.\""), ("algorithm", "\"hmac-sha256\"")] {
            if !table.contains_key(required) {
                let help = format!("add {required} = {example}");
                self.error(source, span.clone(), format!("this key has no {required}"), help);
            }
        }
        let mut keys = TsigKeyTable::default();
        let has_secret = [table.contains_key("secret"), table.contains_key("secret-file")];
        table.into_iter().for_each(|(key, value)| self.read_key(source, &mut keys, key, value));
        if has_secret[0] == has_secret[1] {
            let help = "set `secret` or `secret-file`, and only one of them";
            self.error(
                source,
                span.clone(),
                if has_secret[0] { "this key has two secrets" } else { "this key has no secret" },
                help,
            );
        }
        let Some(DomainName(name)) = keys.name.take() else { return };
        let position = source.position(span.start);
        if let Some(first) = self.key_positions.defined.get(&name) {
            let help = format!("it was first defined at {first}; remove one of them");
            return self.add_error(position, format!("the key {name} is defined twice"), help);
        }
        self.key_positions.defined.insert(name.clone(), position.clone());
        self.add_key(source, name, keys, position);
    }

    fn add_key(&mut self, source: &Source<'_>, name: Name, keys: TsigKeyTable, position: FilePosition) {
        let secret_file = keys.secret_file.map(|FilePath(file)| source.folder.join(file));
        let secret = match &secret_file {
            Some(file) => self.read_secret(file, &position),
            None => keys.secret,
        };
        let (Some(TsigSecret(secret)), Some(TsigAlgorithm(algorithm))) = (secret, keys.algorithm) else { return };
        let key = TsigKey::new(algorithm, name.as_ref(), &secret).and_then(|key| match keys.min_mac_octets {
            WholeNumber(0) => Ok(key),
            WholeNumber(octets) => key.with_min_mac_len(octets as usize),
        });
        match key {
            Ok(key) => self.keys.push(ConfiguredKey { key: key.into(), algorithm, secret_file }),
            Err(error) => {
                self.add_error(position, format!("the key {name} cannot be used: {error}"), "correct `min-mac-octets`")
            }
        }
    }

    /// Warns of a secret that others than the owner and the group of its file can read.
    pub(super) fn check_secrecy(&mut self, file: &Path, position: &FilePosition) {
        if std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0) {
            let message = format!("every user of this machine can open the secret in {}", quoted(&path_text(file)));
            let (severity, help) = (Severity::Warning, format!("chmod o= {}", path_text(file)));
            self.add_finding(Finding { severity, position: position.clone(), message, help });
        }
    }

    fn read_secret(&mut self, file: &Path, position: &FilePosition) -> Option<TsigSecret> {
        let text = match input::read_at_most(file, MAX_SECRET_FILE_LEN) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("{} cannot be read: {error}", quoted(&path_text(file)));
                self.add_error(position.clone(), message, "name a file that the user of zonda can read");
                return None;
            }
        };
        self.check_secrecy(file, position);
        match std::str::from_utf8(text.trim_ascii()).map(str::parse) {
            Ok(Ok(secret)) => Some(secret),
            _ => {
                let message = format!("{} does not contain a secret in base64", quoted(&path_text(file)));
                self.add_error(
                    position.clone(),
                    message,
                    "write what `openssl rand -base64 32` prints, and nothing else",
                );
                None
            }
        }
    }

    /// Notes the keys that the lists in a zone's or template's table name.
    pub(super) fn note_key_names(&mut self, source: &Source<'_>, table: &DeTable<'_>) {
        let entries = table.values().filter_map(|value| value.get_ref().as_array()).flat_map(|array| array.iter());
        let keys = entries.filter_map(|entry| entry.get_ref().as_table()?.get("key"));
        for key in keys {
            // A faulty name is reported where the list is read.
            let name = key.get_ref().as_str().and_then(|name| name.parse().ok());
            let Some(DomainName(name)) = name else { continue };
            self.key_positions.used.entry(name).or_insert_with(|| source.position(key.span().start));
        }
    }

    /// Reports the keys that are named and not defined.
    pub(super) fn check_key_names(&mut self) {
        let positions = std::mem::take(&mut self.key_positions);
        for (name, position) in positions.used.iter().filter(|(name, _)| !positions.defined.contains_key(*name)) {
            let known = nearest(&name.to_string(), positions.defined.keys().map(Name::to_string));
            let help = known.map(|known| format!("did you mean `{known}`?"));
            let help = help.unwrap_or_else(|| format!("add a [[key]] table with name = \"{name}\""));
            self.add_error(position.clone(), format!("there is no key `{name}`"), help);
        }
    }
}
