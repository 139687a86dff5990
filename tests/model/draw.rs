//! Random limits, requests and steps of the clock.
//!
//! Most amounts are drawn in relation to what they meet: a cost as a part of the capacity, a step
//! as the wait that the last answer told, give or take a µs. So the edges are hit often, and a
//! failure shrinks to small numbers.

use proptest::prelude::*;
use redis_rl::algorithm::Request;

use super::{Subject, floor_u64, whole};

/// 2^53.
pub const MOST_UNITS: u64 = 1 << 53;
/// 10 years of 365 days.
pub const MOST_MS: u64 = 315_360_000_000;

/// How large the numbers of a history are.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// A few units and ms, where everything collides.
    Small,
    /// As in a server.
    Usual,
    /// Anything within the ranges.
    Wild,
}

impl Scale {
    /// Any scale, small ones most often.
    pub fn any() -> impl Strategy<Value = Scale> + Clone {
        prop_oneof![4 => Just(Scale::Small), 3 => Just(Scale::Usual), 3 => Just(Scale::Wild)]
    }
}

/// A number of any magnitude, and often one at the edge of the range.
pub fn magnitude(min: u64, max: u64) -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        6 => (0..=63_u32, any::<u64>()).prop_map(move |(bits, value)| {
            (value >> bits).clamp(min, max)
        }),
        2 => (0..=3_u64).prop_map(move |more| (min + more).min(max)),
        1 => (0..=3_u64).prop_map(move |less| max.saturating_sub(less).max(min)),
    ]
}

/// A number of units in relation to a limit.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// So many.
    Exact(u64),
    /// So many eighths of the limit.
    Eighths(u8),
    /// So many more than the limit.
    Over(u64),
}

impl Amount {
    /// In units, at most 2^53.
    pub fn of(self, limit: u64) -> u64 {
        match self {
            Amount::Exact(units) => units,
            Amount::Eighths(part) => (u128::from(limit) * u128::from(part) / 8) as u64,
            Amount::Over(more) => limit.saturating_add(more).min(MOST_UNITS),
        }
    }

    fn cost() -> impl Strategy<Value = Amount> + Clone {
        prop_oneof![
            8 => Just(Amount::Exact(1)),
            3 => (0..=4_u64).prop_map(Amount::Exact),
            4 => (1..=8_u8).prop_map(Amount::Eighths),
            1 => (1..=3_u64).prop_map(Amount::Over),
            1 => magnitude(0, MOST_UNITS).prop_map(Amount::Exact),
        ]
    }

    fn reserve() -> impl Strategy<Value = Amount> + Clone {
        prop_oneof![
            8 => Just(Amount::Exact(0)),
            1 => (1..=2_u64).prop_map(Amount::Exact),
            1 => (1..=8_u8).prop_map(Amount::Eighths),
            1 => magnitude(0, MOST_UNITS).prop_map(Amount::Exact),
        ]
    }
}

/// A request in relation to a limit that is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// `COST`.
    pub cost: Amount,
    /// `RESERVE`.
    pub reserve: Amount,
    /// `PEEK`.
    pub peek: bool,
    /// `FORCE`.
    pub force: bool,
    /// `SHADOW`.
    pub shadow: bool,
    /// `MAXDELAY`, in eighths of the time until the limit is as if never used.
    pub delay: Option<u8>,
    /// `RESOLUTION`, in ms.
    pub resolution_ms: u64,
}

impl Ask {
    /// One unit, no option.
    pub const ONE: Ask = Ask {
        cost: Amount::Exact(1),
        reserve: Amount::Exact(0),
        peek: false,
        force: false,
        shadow: false,
        delay: None,
        resolution_ms: 1,
    };

    /// Any request that the parser lets through.
    pub fn any() -> impl Strategy<Value = Ask> + Clone {
        let flags = (prop::bool::weighted(0.12), 0..12_u8, prop::bool::weighted(0.1));
        let delay = prop_oneof![4 => Just(None), 1 => (0..=8_u8).prop_map(Some)];
        let resolution_ms = prop_oneof![
            6 => Just(1_u64),
            2 => 2..=10_u64,
            1 => magnitude(1, MOST_MS),
        ];
        let parts = (Amount::cost(), Amount::reserve(), flags, delay, resolution_ms);
        parts.prop_map(|(cost, reserve, (peek, forced, shadow), delay, resolution_ms)| Ask {
            cost,
            reserve,
            peek,
            force: forced == 0,
            shadow,
            delay,
            resolution_ms,
        })
    }

    /// A request of the same cost without any option.
    pub fn plain(self) -> Ask {
        Ask { cost: self.cost, ..Ask::ONE }
    }

    /// The request itself, with the options that the limiter has; `FORCE` excludes the others.
    pub fn request<S: Subject>(&self, quota: &S::Quota) -> Request {
        let limit = S::limit(quota);
        let resolution_ms = if S::ROUNDS { self.resolution_ms } else { 1 };
        let request = Request { cost: self.cost.of(limit), resolution_ms, ..Request::ONE };
        if self.force {
            return Request { force: true, ..request };
        }
        let longest = |part: u8| {
            let part = S::full_us(quota) * whole(part) / whole(8_000);
            floor_u64(&part).min(MOST_MS)
        };
        Request {
            reserve: self.reserve.of(limit),
            peek: self.peek,
            shadow: self.shadow,
            max_delay_ms: self.delay.filter(|_| S::DELAYS).map(longest),
            ..request
        }
    }
}

/// A step of the clock before a call.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// No time passes.
    Stay,
    /// So many µs pass.
    Us(u64),
    /// So many quarters of the time for a unit, or of the window, pass.
    Paces(u8),
    /// The wait that the last answer told passes, in whole ms, give or take some µs.
    Retry(i64),
    /// The last answer's time to the reset passes, in whole ms, give or take some µs.
    Reset(i64),
    /// The clock is set back by so many µs.
    Back(u64),
    /// The clock is set back by so many quarters of the time for a unit, or of the window.
    BackPaces(u8),
}

impl Step {
    /// Any step, back as well.
    pub fn any() -> impl Strategy<Value = Step> + Clone {
        prop_oneof![
            8 => Step::on(),
            1 => prop_oneof![
                (0..=3000_u64).prop_map(Step::Back),
                magnitude(0, 1 << 60).prop_map(Step::Back),
                (1..=8_u8).prop_map(Step::BackPaces),
            ],
        ]
    }

    /// A step that is none back.
    pub fn on() -> impl Strategy<Value = Step> + Clone {
        let edge = prop_oneof![Just(0_i64), Just(-1), Just(1), Just(-1000), Just(1000)];
        prop_oneof![
            6 => Just(Step::Stay),
            3 => (1..=3000_u64).prop_map(Step::Us),
            4 => (1..=8_u8).prop_map(Step::Paces),
            4 => edge.clone().prop_map(Step::Retry),
            1 => edge.prop_map(Step::Reset),
            1 => magnitude(0, 1 << 60).prop_map(Step::Us),
        ]
    }
}

/// Something done to a key.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// A call of the limiter.
    Call(Ask),
    /// `RL.REFUND`.
    Refund(Amount),
}

/// One entry of a history.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Which of the history's quotas the call brings.
    pub quota: usize,
    /// What the clock does before.
    pub step: Step,
    /// Whether the caller brings the time.
    pub caller: bool,
    /// What is done.
    pub deed: Deed,
}

impl Op {
    /// Anything.
    pub fn any() -> impl Strategy<Value = Op> + Clone {
        Op::with(prop_oneof![5 => Just(0_usize), 1 => 1..=2_usize], Step::any())
    }

    /// Calls of one limit, at times that never go back.
    pub fn steady() -> impl Strategy<Value = Op> + Clone {
        Op::with(Just(0_usize), Step::on()).prop_map(|op| Op { caller: false, ..op })
    }

    /// Anything, at times that never go back.
    pub fn onward() -> impl Strategy<Value = Op> + Clone {
        Op::with(prop_oneof![2 => Just(0_usize), 1 => 1..=2_usize], Step::on())
    }

    /// Calls of one limit, by clocks that may be set back.
    pub fn unsteady() -> impl Strategy<Value = Op> + Clone {
        Op::with(Just(0_usize), Step::any())
    }

    fn with(
        quota: impl Strategy<Value = usize> + Clone,
        step: impl Strategy<Value = Step> + Clone,
    ) -> impl Strategy<Value = Op> + Clone {
        let refund = prop_oneof![
            2 => (1..=3_u64).prop_map(Amount::Exact),
            1 => (1..=8_u8).prop_map(Amount::Eighths),
            1 => magnitude(1, MOST_UNITS).prop_map(Amount::Exact),
        ];
        let deed =
            prop_oneof![9 => Ask::any().prop_map(Deed::Call), 1 => refund.prop_map(Deed::Refund)];
        (quota, step, prop::bool::weighted(0.3), deed).prop_map(|(quota, step, caller, deed)| Op {
            quota,
            step,
            caller,
            deed,
        })
    }

    /// The same, with `change` made to a call, and a refund made a call of as many units.
    pub fn call(self, change: impl Fn(Ask) -> Ask) -> Op {
        let ask = match self.deed {
            Deed::Call(ask) => ask,
            Deed::Refund(cost) => Ask { cost, ..Ask::ONE },
        };
        Op { deed: Deed::Call(change(ask)), ..self }
    }
}

/// Where a history begins, in µs: at the epoch, today, or as late as a caller may say.
pub fn start() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        1 => 0..=5000_u64,
        4 => (0..=5_000_000_u64).prop_map(|us| 1_700_000_000_000_000 + us),
        1 => (0..=5_000_000_u64).prop_map(|us| (1 << 53) * 1000 - us),
    ]
}

/// Histories of `op`: limits, a start and what is done.
pub fn history<S: Subject>(
    op: impl Strategy<Value = Op> + Clone,
    most: usize,
) -> impl Strategy<Value = History<S::Quota>> {
    (S::quotas(), start(), prop::collection::vec(op, 1..most))
        .prop_map(|(quotas, start_us, ops)| History { quotas, start_us, ops })
}

/// What happens to a key.
#[derive(Clone, Debug)]
pub struct History<Q> {
    /// The limits that the calls bring.
    pub quotas: Vec<Q>,
    /// Where the clock begins.
    pub start_us: u64,
    /// What is done, in order.
    pub ops: Vec<Op>,
}

impl<Q: Copy> History<Q> {
    /// The limit that a call brings.
    pub fn quota(&self, op: &Op) -> Q {
        self.quotas[op.quota % self.quotas.len()]
    }
}
