//! Options that take one of a few named values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vidon::problems::known;

/// A value, its name on the command line, and a line of help.
pub type Choice<T> = (T, &'static str, &'static str);

/// The name of a value that is among the choices.
pub fn name_of<T: PartialEq>(choices: &[Choice<T>], value: T) -> &'static str {
    let choice = choices.iter().find(|choice| choice.0 == value);
    choice.expect("every value is a choice").1
}

/// Parses one of `choices` by its name.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let value = |(_, name, help): &Choice<T>| PossibleValue::new(*name).help(*help);
    PossibleValuesParser::new(choices.iter().map(value)).map(move |given| {
        let chosen = choices.iter().find(|choice| choice.1 == given);
        chosen.expect("clap accepts no other name").0
    })
}

/// Parses the name of a problem.
pub fn a_problem() -> impl TypedValueParser<Value = &'static str> {
    let problems = known();
    let values = problems
        .iter()
        .map(|p| PossibleValue::new(p.name()).help(p.about()));
    PossibleValuesParser::new(values.collect::<Vec<_>>()).map(|given| {
        let problems = known();
        let chosen = problems.iter().find(|p| p.name() == given);
        chosen.expect("clap accepts no other name").name()
    })
}
