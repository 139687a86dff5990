//! A value of a module as DUMP serializes it, taken apart and put together again.
//!
//! | bytes | what |
//! |---|---|
//! | `07` | the value is a module's, in the format that tells where each part ends |
//! | `81`, 8 bytes | the type: nine characters of six bits, and ten bits of encoding version |
//! | `05`, a length, so many bytes | a string: all that this module writes |
//! | `00` | the end of the value |
//! | 2 bytes, low first | the version of the server's file format |
//! | 8 bytes, low first | CRC-64 of everything before |

const MODULE_2: u8 = 7;
const LENGTH_64: u8 = 0x81;
const STRING: u8 = 5;
const END: u8 = 0;
const VERSION: usize = 2;
const CHECKSUM: usize = 8;
/// The part of a type's number that is its encoding version.
const ENCODING_BITS: u32 = 10;

/// The parts of a dumped value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The number of the type, its encoding version included.
    pub type_number: u64,
    /// What the module wrote.
    pub bytes: Vec<u8>,
    /// The version of the server's file format.
    pub format: [u8; VERSION],
}

impl Payload {
    /// Takes apart what DUMP answered on a server with `rdbcompression no`.
    pub fn read(dump: &[u8]) -> Payload {
        let [MODULE_2, LENGTH_64, rest @ ..] = body(dump) else {
            panic!("not a module's value: {}", dump.escape_ascii());
        };
        let (number, rest) = rest.split_first_chunk().expect("a type");
        let [STRING, rest @ ..] = rest else { panic!("no string: {}", dump.escape_ascii()) };
        let (len, rest) = match rest {
            [len @ 0..=0x3f, rest @ ..] => (usize::from(*len), rest),
            [high @ 0x40..=0x7f, low, rest @ ..] => {
                (usize::from(high & 0x3f) << 8 | usize::from(*low), rest)
            }
            [0x80, rest @ ..] => {
                let (len, rest) = rest.split_first_chunk().expect("a length");
                (usize::try_from(u32::from_be_bytes(*len)).expect("a length"), rest)
            }
            _ => panic!("no plain string: {}", dump.escape_ascii()),
        };
        assert_eq!((rest.len(), rest.last()), (len + 1, Some(&END)), "one string is all");
        let bytes = rest[..len].to_vec();
        Payload { type_number: u64::from_be_bytes(*number), bytes, format: format(dump) }
    }

    /// The encoding version of the type.
    pub fn encoding(&self) -> u64 {
        self.type_number & ((1 << ENCODING_BITS) - 1)
    }

    /// The same with another encoding version of the type.
    pub fn with_encoding(self, encoding: u64) -> Payload {
        let name = self.type_number >> ENCODING_BITS << ENCODING_BITS;
        Payload { type_number: name | encoding, ..self }
    }

    /// The same with other bytes of the module.
    pub fn with_bytes(&self, bytes: &[u8]) -> Payload {
        Payload { bytes: bytes.to_vec(), ..self.clone() }
    }

    /// The value without its format and checksum.
    pub fn body(&self) -> Vec<u8> {
        let len = u32::try_from(self.bytes.len()).expect("a short value").to_be_bytes();
        let mut body = vec![MODULE_2, LENGTH_64];
        body.extend(self.type_number.to_be_bytes());
        body.push(STRING);
        match self.bytes.len() {
            0..0x40 => body.push(len[3]),
            0x40..0x4000 => body.extend([len[2] | 0x40, len[3]]),
            _ => body.extend([&[0x80], len.as_slice()].concat()),
        }
        body.extend(&self.bytes);
        body.push(END);
        body
    }

    /// What RESTORE takes, with a valid checksum.
    pub fn write(&self) -> Vec<u8> {
        stamp(&self.body(), self.format)
    }
}

/// A dump without its format and checksum.
pub fn body(dump: &[u8]) -> &[u8] {
    &dump[..dump.len() - CHECKSUM - VERSION]
}

/// The version of the file format in a dump.
pub fn format(dump: &[u8]) -> [u8; VERSION] {
    let (_, end) = dump.split_last_chunk::<{ CHECKSUM + VERSION }>().map_or_else(
        || panic!("too short for a dump: {}", dump.escape_ascii()),
        |(start, end)| (start, end),
    );
    [end[0], end[1]]
}

/// Ends a value with format and checksum.
pub fn stamp(body: &[u8], format: [u8; VERSION]) -> Vec<u8> {
    let mut dump = [body, &format].concat();
    dump.extend(crc64(&dump).to_le_bytes());
    dump
}

/// The server's checksum: CRC-64 of Jones, reflected, from 0 on.
pub fn crc64(bytes: &[u8]) -> u64 {
    const TABLE: [u64; 256] = table();
    bytes.iter().fold(0, |crc, byte| {
        let index = usize::from(byte ^ crc.to_le_bytes()[0]);
        TABLE[index] ^ (crc >> 8)
    })
}

/// What each value of a byte does to the checksum.
const fn table() -> [u64; 256] {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;
    let reflected = POLYNOMIAL.reverse_bits();
    let mut table = [0; 256];
    let mut byte = 0;
    let mut crc: u64 = 0;
    while byte < 256 {
        let mut value = crc;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ reflected } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
        crc += 1;
    }
    table
}
