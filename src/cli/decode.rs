//! `murre decode`: one word or one record in hexadecimal in, its fields out. Eight digits are an ADDR4, sixteen an ADDR8
//! (both as numbers, most significant digit first), 128 a record (bytes in file order).

use super::console::Console;
use super::{Exit, Outcome};
use murre::report::{Decoded, decode_hex};

/// Arguments of `decode`.
#[derive(clap::Args)]
pub struct Args {
    /// 8, 16 or 128 hexadecimal digits; 0x, spaces and underscores are skipped
    #[arg(required = true, value_name = "WORD")]
    word: Vec<String>,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let decoded: Decoded = decode_hex(&args.word.concat()).map_err(|d| vec![d])?;
    if console.json {
        console.value(&decoded.json());
    } else {
        console.out(&decoded.text());
    }
    Ok(Exit::Fine)
}
