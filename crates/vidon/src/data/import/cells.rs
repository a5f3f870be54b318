//! Cells of an Arrow column as names and as numbers, for the types that tables of measurements have.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, downcast_integer_array, downcast_temporal_array};
use arrow_schema::DataType;

use crate::data::cells::Cells;

/// Every cell as a name, none where it is null; nothing where the type has no names.
pub(super) fn names(column: &dyn Array) -> Option<Vec<Option<String>>> {
    if let Some(texts) = texts(column) {
        return Some(texts);
    }
    if let Some((values, keys)) = dictionary(column) {
        return Some(spread(&names(values)?, &keys));
    }
    downcast_integer_array!(
        column => Some(column.iter().map(|v| v.map(|v| v.to_string())).collect()),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let numbers = numbers(column)?.into_iter();
            Some(numbers.map(|v| v.and_then(|v| v.ok()).map(|v| v.to_string())).collect())
        },
        DataType::Boolean => {
            let cells = column.as_boolean().iter();
            Some(cells.map(|v| v.map(|v| v.to_string())).collect())
        },
        _ => moments(column),
    )
}

/// Every cell as a number, none where it is null, an error where it is none; nothing where the type has no
/// numbers.
pub(super) fn numbers(column: &dyn Array) -> Option<Vec<Option<Result<f64, ()>>>> {
    if let Some(texts) = texts(column) {
        let parse = |cell: String| cell.trim().parse::<f64>().map_err(|_| ());
        return Some(texts.into_iter().map(|cell| cell.map(parse)).collect());
    }
    if let Some((values, keys)) = dictionary(column) {
        return Some(spread(&numbers(values)?, &keys));
    }
    /// Cells of one type, each by a formula.
    macro_rules! cells {
        ($array:expr, $number:expr) => {
            Some($array.iter().map(|v| v.map(|v| Ok($number(v)))).collect())
        };
    }
    downcast_integer_array!(
        column => cells!(column, |v| v as f64),
        DataType::Float16 => cells!(column.as_primitive::<Float16Type>(), f64::from),
        DataType::Float32 => cells!(column.as_primitive::<Float32Type>(), f64::from),
        DataType::Float64 => cells!(column.as_primitive::<Float64Type>(), |v| v),
        DataType::Boolean => cells!(column.as_boolean(), |v| v as u8 as f64),
        DataType::Decimal128(_, scale) => {
            let unit = 10f64.powi(-i32::from(*scale));
            cells!(column.as_primitive::<Decimal128Type>(), |v| v as f64 * unit)
        },
        DataType::Null => Some(vec![None; column.len()]),
        _ => None,
    )
}

/// Every cell as it is: whole numbers and floating-point ones stay such, everything else is text; nothing where the
/// type has no words.
pub(super) fn as_they_are(column: &dyn Array) -> Option<Cells> {
    match column.data_type() {
        DataType::Float16 | DataType::Float64 => {
            let known = |v: Option<Result<f64, ()>>| v.and_then(Result::ok).unwrap_or(f64::NAN);
            Some(Cells::Numbers(
                numbers(column)?.into_iter().map(known).collect(),
            ))
        }
        DataType::Float32 => {
            let all = column.as_primitive::<Float32Type>().iter();
            Some(Cells::Singles(all.map(|v| v.unwrap_or(f32::NAN)).collect()))
        }
        // Beyond the reach of whole numbers the words are kept.
        kind if kind.is_integer() && *kind != DataType::UInt64 => {
            let parse = |name: Option<String>| name.and_then(|text| text.parse().ok());
            Some(Cells::Whole(
                names(column)?.into_iter().map(parse).collect(),
            ))
        }
        _ => {
            let all = names(column)?.into_iter();
            Some(Cells::Texts(all.map(Option::unwrap_or_default).collect()))
        }
    }
}

fn texts(column: &dyn Array) -> Option<Vec<Option<String>>> {
    let owned = |v: Option<&str>| v.map(str::to_string);
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().iter().map(owned).collect()),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().iter().map(owned).collect()),
        DataType::Utf8View => Some(column.as_string_view().iter().map(owned).collect()),
        _ => None,
    }
}

/// Dates and times as ISO 8601 writes them.
fn moments(column: &dyn Array) -> Option<Vec<Option<String>>> {
    let dates = matches!(column.data_type(), DataType::Date32 | DataType::Date64);
    downcast_temporal_array!(
        column => {
            let text = |i: usize| match dates {
                true => column.value_as_date(i).map(|d| d.to_string()),
                false => column.value_as_datetime(i).map(|t| format!("{t:?}")),
            };
            Some((0..column.len()).map(|i| text(i).filter(|_| column.is_valid(i))).collect())
        },
        _ => None,
    )
}

/// The values of a dictionary, and the place of each cell's among them.
fn dictionary(column: &dyn Array) -> Option<(&ArrayRef, Vec<Option<usize>>)> {
    let dictionary = column.as_any_dictionary_opt()?;
    let valid = |(i, key): (usize, usize)| column.is_valid(i).then_some(key);
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    Some((dictionary.values(), keys.map(valid).collect()))
}

fn spread<T: Clone>(values: &[Option<T>], keys: &[Option<usize>]) -> Vec<Option<T>> {
    keys.iter().map(|key| values[(*key)?].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
        LargeStringArray, NullArray, StringViewArray, TimestampMillisecondArray, UInt64Array,
    };
    use std::sync::Arc;

    fn name(column: impl Array) -> String {
        let cells = names(&column).expect("a type with names");
        assert_eq!(cells.len(), column.len());
        cells.last().cloned().flatten().unwrap_or("none".into())
    }

    fn number(column: impl Array) -> Option<f64> {
        let cells = numbers(&column).expect("a type with numbers");
        cells
            .last()
            .cloned()
            .flatten()
            .map(|v| v.unwrap_or(f64::NAN))
    }

    #[test]
    fn every_type_of_a_table_has_its_words() {
        assert_eq!(name(LargeStringArray::from(vec!["a"])), "a");
        assert_eq!(name(StringViewArray::from(vec![Some("a"), None])), "none");
        assert_eq!(
            name(UInt64Array::from(vec![u64::MAX])),
            "18446744073709551615"
        );
        assert_eq!(name(Float32Array::from(vec![1.5])), "1.5");
        assert_eq!(name(BooleanArray::from(vec![true])), "true");
        assert_eq!(name(Date32Array::from(vec![18_262])), "2020-01-01");
        let moment = TimestampMillisecondArray::from(vec![1_577_836_800_000]);
        assert_eq!(name(moment), "2020-01-01T00:00:00");
        let coded: DictionaryArray<Int8Type> =
            vec![Some("b"), None, Some("c")].into_iter().collect();
        assert_eq!(name(coded), "c");
        assert!(names(&BinaryArray::from(vec![&b"a"[..]])).is_none());
    }

    #[test]
    fn every_type_of_a_table_has_its_numbers() {
        assert_eq!(number(LargeStringArray::from(vec![" 1e3 "])), Some(1e3));
        assert!(number(StringViewArray::from(vec!["x"])).is_some_and(f64::is_nan));
        assert_eq!(number(UInt64Array::from(vec![Some(7), None])), None);
        assert_eq!(number(Float32Array::from(vec![1.5])), Some(1.5));
        assert_eq!(number(BooleanArray::from(vec![true])), Some(1.0));
        let decimal = Decimal128Array::from(vec![1_250])
            .with_precision_and_scale(9, 3)
            .unwrap();
        assert!((number(decimal).unwrap() - 1.25).abs() < 1e-12);
        assert_eq!(number(NullArray::new(2)), None);
        let keys = arrow_array::Int8Array::from(vec![1, 0]);
        let values = Arc::new(UInt64Array::from(vec![5, 6]));
        assert_eq!(number(DictionaryArray::new(keys, values)), Some(5.0));
        assert!(numbers(&Date32Array::from(vec![1])).is_none());
    }
}
