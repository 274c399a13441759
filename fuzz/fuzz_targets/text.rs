//! HLO text: whatever comes in is a module or diagnostics; reading token by token gives the same; a valid module prints to
//! text that reads back to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use murre::hlo::{print_module, read_text, read_text_by_token, verify};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let quick = read_text(text, "fuzz");
    let slow = read_text_by_token(text, "fuzz");
    match (&quick, &slow) {
        (Ok(a), Ok(b)) => assert!(a == b, "the two ways of reading differ"),
        (Err(a), Err(b)) => {
            let codes = |d: &[murre::components::diag::Diagnostic]| d.iter().map(|d| d.code.id).collect::<Vec<_>>();
            assert_eq!(codes(a), codes(b));
        }
        _ => panic!("one way of reading refuses the text"),
    }
    if let Ok(module) = quick
        && verify(&module).is_empty()
    {
        let printed = print_module(&module);
        let back = read_text(&printed, "printed").unwrap_or_else(|f| panic!("{f:#?}\n{printed}"));
        assert_eq!(printed, print_module(&back));
        assert!(verify(&back).is_empty());
    }
});
