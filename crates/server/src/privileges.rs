//! Dropping root privileges to the user of the `user` key.

use std::io;

use netio::privilege::{self, Identity};
use tracing::info;

use crate::config::Server;
use crate::config::value::BoundedText;

/// Privileges cannot be dropped to the configured user.
#[derive(Debug, thiserror::Error)]
#[error("cannot become the user {0}: {1}; {help}", help = user_help(.1))]
pub struct UserError(String, io::Error);

fn user_help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "correct `user` in the configuration, or create it",
        _ => "start as root, or remove `user` from the configuration and set `User=` and `Group=` in the systemd unit",
    }
}

/// The configured user and group, if any.
pub fn configured_user(server: &Server) -> Result<Option<Identity>, UserError> {
    let Some((name, group)) = user_and_group(server) else { return Ok(None) };
    privilege::resolve_identity(name, group).map(Some).map_err(|error| UserError(name.to_owned(), error))
}

/// Becomes the configured user, if any.
pub fn drop_to_user(server: &Server) -> Result<(), UserError> {
    let Some((name, group)) = user_and_group(server) else { return Ok(()) };
    // systemd has done it (`User=`): only root could do it again. Root must still give up its capabilities.
    let current = privilege::current_identity();
    if current.user != 0 && configured_user(server)? == Some(current) {
        return Ok(());
    }
    let identity = privilege::drop_privileges(name, group).map_err(|error| UserError(name.to_owned(), error))?;
    info!(user = identity.user, group = identity.group, "privileges dropped");
    Ok(())
}

fn user_and_group(server: &Server) -> Option<(&str, Option<&str>)> {
    let BoundedText(user) = server.user.as_ref()?;
    Some(user.split_once(':').map_or((user, None), |(user, group)| (user, Some(group))))
}
