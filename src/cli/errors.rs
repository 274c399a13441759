//! `murre errors`: the registered diagnostic codes, or the page of one of them.

use super::console::Console;
use super::{Exit, Outcome};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use murre::components::diag::{Code, codes};
use serde_json::json;

/// Arguments of `errors`.
#[derive(clap::Args)]
pub struct Args {
    /// A code, MUR0103 for one; without it all codes are listed
    #[arg(value_parser = code_parser(), ignore_case = true, hide_possible_values = true)]
    code: Option<Code>,
}

fn code_parser() -> impl TypedValueParser<Value = Code> {
    let values: Vec<PossibleValue> = codes::all().map(|c| PossibleValue::new(c.id)).collect();
    // The parser in front has accepted the id, so that the look-up finds it.
    PossibleValuesParser::new(values).map(|id| codes::find(&id).unwrap_or(&codes::internal::INTERNAL))
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    match args.code {
        Some(code) if console.json => {
            console.value(&json!({ "code": code.id, "title": code.title, "page": code.page }));
        }
        Some(code) => console.out(code.page),
        None if console.json => {
            let all: Vec<_> = codes::all().map(|c| json!({ "code": c.id, "title": c.title })).collect();
            console.value(&json!(all));
        }
        None => console.out(&codes::all().map(|c| format!("{}  {}\n", c.id, c.title)).collect::<String>()),
    }
    Ok(Exit::Fine)
}
