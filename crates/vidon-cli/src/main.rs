//! The `vidon` program.

fn main() -> std::process::ExitCode {
    vidon_cli::run()
}
