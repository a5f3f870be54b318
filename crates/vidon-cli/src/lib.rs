//! The `vidon` program: arguments in, library calls, words and pictures out.
//!
//! A program with a problem of its own [registers](vidon::problems::register) it and then [`run`]s: all
//! commands know it (`examples/own-problem`).

mod choice;
mod commands;
mod failure;
mod memory;
mod outputs;
mod ui;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Learn operators between functions from scattered sensors.
///
/// A sample is a set of sensors (where they stand and what they read) and the answers at some
/// queries. Numbers and places of the sensors may change from sample to sample.
///
/// First steps:
///
///   vidon demo
///   vidon train recipes/fast/darcy-variable.toml --budget 5m
///   vidon eval runs/darcy-variable --samples 100
///   vidon reproduce --problem darcy --budget 2m
///
/// Data and pictures:
///
///   vidon generate darcy --layout variable --split test --samples 8 --out darcy.parquet
///   vidon inspect darcy.parquet
///   vidon plot darcy.parquet --sample 3 --out darcy.png
///
/// Your own measurements:
///
///   vidon import readings.csv --sample run --coords x,y --values p --target-values u \
///     --out mine.parquet
///   vidon baseline mine.parquet
#[derive(Parser)]
#[command(
    version,
    verbatim_doc_comment,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Threads to compute with [default: one per core]
    #[arg(long, global = true, display_order = 100, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Say nothing but results and errors
    #[arg(long, short, global = true, display_order = 101)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Arguments),
    Train(commands::train::Arguments),
    Eval(commands::eval::Arguments),
    Reproduce(commands::reproduce::Arguments),
    Baseline(commands::baseline::Arguments),
    Predict(commands::predict::Arguments),
    Generate(commands::generate::Arguments),
    Import(commands::import::Arguments),
    Inspect(commands::inspect::Arguments),
    Plot(commands::plot::Arguments),
    Bench(commands::bench::Arguments),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    memory::keep_freed_blocks();
    let arguments = Arguments::parse();
    let ui = ui::Ui::new(arguments.quiet);
    let threads = arguments
        .threads
        .map_or(Ok(()), |n| ui::set_threads(n as usize));
    let isa = vidon_kernels::Isa::wanted().map_err(Failure::Words);
    let outcome = threads.and(isa).and_then(|_| match arguments.command {
        Command::Bench(a) => commands::bench::run(a, &ui),
        Command::Demo(a) => commands::demo::run(a, &ui),
        Command::Train(a) => commands::train::run(a, &ui),
        Command::Eval(a) => commands::eval::run(a, &ui),
        Command::Baseline(a) => commands::baseline::run(a, &ui),
        Command::Predict(a) => commands::predict::run(a, &ui),
        Command::Generate(a) => commands::generate::run(a, &ui),
        Command::Import(a) => commands::import::run(a, &ui),
        Command::Inspect(a) => commands::inspect::run(a),
        Command::Plot(a) => commands::plot::run(a, &ui),
        Command::Reproduce(a) => commands::reproduce::run(a, &ui),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Stopped) => ExitCode::from(ui::stopped_code()),
        Err(error) => {
            ui::say(&format!("error: {}", ui::chain(&error)));
            match error {
                Failure::Library(vidon::Error::Interrupted) => ExitCode::from(ui::stopped_code()),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
