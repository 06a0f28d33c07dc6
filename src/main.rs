//! The binary: argv in, exit code out. All work is in the library; start reading at `commands::explain`.

use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;

use premain::error::Exit;
use premain::output::{Output, Style};
use premain::{cli, sys};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let style = Style {
        color: stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        width: sys::terminal::width(stdout.as_fd()).unwrap_or(80),
    };
    let mut out = BufWriter::new(stdout.lock());
    let mut err = stderr.lock();
    let err_is_terminal = stderr.is_terminal();
    let mut output = Output { out: &mut out, err: &mut err, style, err_is_terminal };
    let done = cli::run(&args, &mut output).and_then(|exit| {
        output.flush()?;
        Ok(exit)
    });
    ExitCode::from(match done {
        Ok(exit) => exit.code(),
        Err(e) if e.is_pipe_closed() => Exit::Done.code(),
        Err(e) => {
            // What was printed before the failure comes first, and a closed pipe there changes nothing.
            let _ = output.flush();
            output.error(&e.to_string());
            e.exit().code()
        }
    })
}
