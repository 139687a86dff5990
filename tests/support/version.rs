//! Which server is under test: some facts differ between products and versions.

use super::field;

/// A family of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Redis itself.
    Redis,
    /// Valkey, which reports a Redis version too.
    Valkey,
    /// Redict, likewise.
    Redict,
}

/// A server's product and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The product.
    pub product: Product,
    /// Its own version: major, minor, patch.
    pub number: (u32, u32, u32),
}

impl Version {
    /// Reads the text of INFO's section `server`.
    pub fn from_info(info: &str) -> Version {
        let (product, number) = [
            (Product::Valkey, "valkey_version"),
            (Product::Redict, "redict_version"),
            (Product::Redis, "redis_version"),
        ]
        .into_iter()
        .find_map(|(product, name)| Some((product, field(info, name)?)))
        .unwrap_or_else(|| panic!("INFO names no version: {info}"));
        let mut parts = number.split('.').map(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or(0)
        });
        let mut next = || parts.next().unwrap_or(0);
        Version { product, number: (next(), next(), next()) }
    }

    /// Whether the clock of PTTL stands still inside of MULTI and scripts: not in Redis 7.0.
    pub fn freezes_pttl(self) -> bool {
        self.product != Product::Redis || self.number >= (7, 2, 0)
    }
}
