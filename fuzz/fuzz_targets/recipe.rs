#![no_main]

vidon_fuzz_targets::target!("recipe");
