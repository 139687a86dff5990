//! Every answer, write and state of the code is that of the naive model.

use proptest::prelude::*;

use crate::model::agree::agrees;
use crate::model::cases;
use crate::model::draw::{Op, history};

crate::for_each!(token_bucket leaky_bucket sliding_window, {
    proptest! {
        #![proptest_config(cases(400))]

        #[test]
        fn every_answer_is_that_of_the_naive_model(
            history in history::<Limited>(Op::any(), 24)
        ) {
            agrees::<Limited>(&history)?;
        }
    }
});
