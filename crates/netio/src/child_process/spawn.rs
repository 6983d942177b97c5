//! Starting a process by posix_spawn(3).

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::ChildProcess;
use crate::resource_limits::restore_open_files_of;

/// A program and how to start it: in a group of its own, without blocked signals, and with a pipe for standard error. What it writes to
/// standard output is thrown away. Its limit of open files is that of this process before it was raised.
#[derive(Default)]
pub struct ChildCommand {
    /// A path, or a name that is looked up in the PATH of this process.
    pub program: OsString,
    /// The arguments after its name.
    pub arguments: Vec<OsString>,
    /// Its environment, all of it.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether its standard input is a pipe. Without, it is empty.
    pub has_stdin: bool,
}

/// The environment of this process, with these variables set, and without others.
pub(super) fn environment(set: &[(&str, &str)], removed: &[&str]) -> Vec<(OsString, OsString)> {
    let is_kept = |key: &OsStr| !set.iter().map(|(key, _)| key).chain(removed).any(|changed| key == *changed);
    let kept = std::env::vars_os().filter(|(key, _)| is_kept(key));
    kept.chain(set.iter().map(|(key, value)| (key.into(), value.into()))).collect()
}

impl ChildCommand {
    /// Sets the environment to that of this process, with these variables set, and without others.
    pub fn inherit_environment(&mut self, set: &[(&str, &str)], removed: &[&str]) {
        self.environment = environment(set, removed);
    }

    /// Starts the program. Fails if it cannot be executed.
    pub fn spawn(&self) -> io::Result<ChildProcess> {
        let program = c_string(&self.program)?;
        let arguments = std::iter::once(&self.program).chain(&self.arguments);
        let arguments = arguments.map(|argument| c_string(argument)).collect::<io::Result<Vec<CString>>>()?;
        let variables = self.environment.iter().map(|(key, value)| c_string(&joined(key, value)));
        let variables = variables.collect::<io::Result<Vec<CString>>>()?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let (input, stdin) = match self.has_stdin {
            true => io::pipe().map(|(input, stdin)| (Some(input), Some(stdin)))?,
            false => (None, None),
        };
        let (stderr, error) = io::pipe()?;
        let input = input.as_ref().map_or(null.as_raw_fd(), AsRawFd::as_raw_fd);
        let files = FileActions::new([input, null.as_raw_fd(), error.as_raw_fd()])?;
        let id = spawn(&program, &arguments, &variables, &files)?;
        // posix_spawn(3) sets no limits. The program has been loaded by now, and hardly begun.
        restore_open_files_of(id);
        let file = |pipe: OwnedFd| File::from(pipe);
        Ok(ChildProcess { id, stdin: stdin.map(|pipe| file(pipe.into())), stderr: Some(file(stderr.into())) })
    }
}

fn spawn(program: &CString, arguments: &[CString], variables: &[CString], files: &FileActions) -> io::Result<u32> {
    let attributes = Attributes::new()?;
    let (arguments, variables) = (pointers(arguments), pointers(variables));
    let mut id = 0;
    // SAFETY: both arrays end with a null pointer, and their strings, like all else, live through the call, which changes none of it.
    check(unsafe {
        libc::posix_spawnp(
            &mut id,
            program.as_ptr(),
            &files.0,
            &attributes.0,
            arguments.as_ptr().cast(),
            variables.as_ptr().cast(),
        )
    })?;
    Ok(id as u32)
}

fn joined(key: &OsStr, value: &OsStr) -> OsString {
    let mut variable = key.to_owned();
    variable.push("=");
    variable.push(value);
    variable
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(ptr::null())).collect()
}

/// These functions return the number of an error.
fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// The descriptors that the process begins with: standard input, output and error. All others are closed on exec.
struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new(sources: [RawFd; 3]) -> io::Result<FileActions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call initializes `actions`, if it succeeds.
        let mut actions = unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            FileActions(actions.assume_init())
        };
        for (target, source) in sources.into_iter().enumerate() {
            // SAFETY: `actions` is initialized. The descriptors are not used before the process starts.
            check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut actions.0, source, target as RawFd) })?;
        }
        Ok(actions)
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and is not used afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// What else the process begins with.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A group of its own, and no blocked signals: it would inherit those of [`crate::signal::Signals::block`], and no program that it
    /// starts would end by SIGTERM, as timeout(1) expects. Nor does it ignore SIGPIPE, as the runtime of Rust has this process do.
    fn new() -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the call initializes `attributes`, if it succeeds.
        let mut attributes = unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            Attributes(attributes.assume_init())
        };
        let flags = libc::POSIX_SPAWN_SETPGROUP | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        let mut signals = MaybeUninit::uninit();
        // SAFETY: `attributes` is initialized, and `signals` by its first call.
        unsafe {
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(&mut attributes.0, signals.as_ptr()))?;
            libc::sigfillset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(&mut attributes.0, signals.as_ptr()))?;
            check(libc::posix_spawnattr_setpgroup(&mut attributes.0, 0))?;
            check(libc::posix_spawnattr_setflags(&mut attributes.0, flags as libc::c_short))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: it was initialized, and is not used afterwards.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}
