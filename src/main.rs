//! The `murre` program. In: a command line. Out: files, text, and an exit code (0 fine, 1 the input is at fault,
//! 2 usage, 3 results differ, 70 a bug of ours). Everything it does is in [`cli`], one file a command.

mod cli;
mod counting;

fn main() -> std::process::ExitCode {
    cli::main()
}
