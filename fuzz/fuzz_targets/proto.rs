//! HLO protos: whatever comes in is a module or diagnostics; a valid module prints to text that reads back to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use murre::hlo::{print_module, read_module, read_text, verify};

fuzz_target!(|data: &[u8]| {
    if let Ok(module) = read_module(data, "fuzz")
        && verify(&module).is_empty()
    {
        let printed = print_module(&module);
        let back = read_text(&printed, "printed").unwrap_or_else(|f| panic!("{f:#?}\n{printed}"));
        assert_eq!(printed, print_module(&back));
        assert!(verify(&back).is_empty());
    }
});
