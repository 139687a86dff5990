//! Medians: of all that is measured several times, the value in the middle counts.

/// What one measurement tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The server's CPU time a call, user and system, in ns.
    pub cpu_ns: f64,
    /// Calls a second.
    pub throughput: f64,
    /// What the server says that it spent within the command, in us a call.
    pub usec: f64,
}

/// What of a sample is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The server's CPU time a call.
    Cpu,
    /// Calls a second.
    Throughput,
    /// Time within the command.
    Usec,
}

impl Metric {
    /// This of a sample.
    pub fn of(self, sample: &Sample) -> f64 {
        match self {
            Metric::Cpu => sample.cpu_ns,
            Metric::Throughput => sample.throughput,
            Metric::Usec => sample.usec,
        }
    }
}

/// The value in the middle, or between the two in the middle; none of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The median over the rounds of one contender's metric.
pub fn typical(samples: &[Sample], metric: Metric) -> Option<f64> {
    median(samples.iter().map(|sample| metric.of(sample)))
}

/// The median over the rounds of `of` in relation to `over`, each taken within its round.
pub fn ratio(of: &[Sample], over: &[Sample], metric: Metric) -> Option<f64> {
    assert_eq!(of.len(), over.len(), "both were measured in every round");
    median(of.iter().zip(over).map(|(of, over)| metric.of(of) / metric.of(over)))
}
