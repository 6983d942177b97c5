//! What to do if something cannot be written: the one place that decides, by the error.

use std::io::{self, ErrorKind};

use netio::privilege::current_user;

/// The help for an error of writing `what`, such as "the state-dir": no sentence of its own, so that more may follow.
pub fn write_help(error: &io::Error, what: &str) -> String {
    match error.kind() {
        ErrorKind::StorageFull => format!("free space on the disk of {what}"),
        ErrorKind::QuotaExceeded => {
            format!("free space on the disk of {what}, or raise the quota of user {}", current_user())
        }
        // EACCES and EPERM. The latter is also the answer for files that nobody may change.
        ErrorKind::PermissionDenied => format!(
            "let user {}, which zonda runs as, own {what} or write to it, and remove attributes such as immutable (`lsattr`)",
            current_user()
        ),
        ErrorKind::ReadOnlyFilesystem => format!(
            "mount the file system of {what} read-write, or list it in `ReadWritePaths=` of the systemd service; the log of the kernel \
             says if a fault made it read-only"
        ),
        ErrorKind::NotFound => format!("create {what} or put it back"),
        ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::AlreadyExists => {
            format!("move away what is in the place of {what}")
        }
        // What has no number is an error of our own, which says what is wrong.
        _ if error.raw_os_error().is_none() => format!("correct that in {what}"),
        _ => format!("check the disk of {what}; the log of the kernel may say more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_the_error_number() {
        let user = current_user();
        // EPERM, ENOENT, EIO, EACCES, EEXIST, ENOSPC, EROFS, EDQUOT.
        for (number, expected) in [
            (1, format!("let user {user}, which zonda runs as, own the state-dir or write to it")),
            (2, "create the state-dir or put it back".to_owned()),
            (5, "check the disk of the state-dir".to_owned()),
            (13, format!("let user {user}, which zonda runs as, own the state-dir or write to it")),
            (17, "move away what is in the place of the state-dir".to_owned()),
            (28, "free space on the disk of the state-dir".to_owned()),
            (30, "mount the file system of the state-dir read-write".to_owned()),
            (122, format!("free space on the disk of the state-dir, or raise the quota of user {user}")),
        ] {
            let help = write_help(&io::Error::from_raw_os_error(number), "the state-dir");
            assert!(help.starts_with(&expected), "{number}: {help}");
            assert_eq!(help.contains("free space"), matches!(number, 28 | 122), "{number}: {help}");
            // An error that was given a context keeps its kind.
            let error = io::Error::from_raw_os_error(number);
            let with_context = io::Error::new(error.kind(), format!("`lock` in it: {error}"));
            assert_eq!(write_help(&with_context, "the state-dir") == help, number != 5, "{number}");
        }
    }
}
