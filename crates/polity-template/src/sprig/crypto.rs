//! Digests, passwords and random values. Randomness is the host's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::strings::made;
use crate::arg::{int, text};
use crate::encryption::Key;
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::run::Run;
use crate::value::Value;

const T: Type = Type::Text;
const I: Type = Type::Int;

/// The cost of expensive functions in steps.
const BCRYPT_STEPS: u64 = 100_000;
const SCRYPT_STEPS: u64 = 200_000;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "sha1sum",
        function(&[T], None, |_, v| made(hex(&Sha1::digest(text(&v[0]))))),
    ),
    (
        "sha256sum",
        function(&[T], None, |_, v| made(hex(&Sha256::digest(text(&v[0]))))),
    ),
    (
        "sha512sum",
        function(&[T], None, |_, v| made(hex(&Sha512::digest(text(&v[0]))))),
    ),
    (
        "adler32sum",
        function(&[T], None, |_, v| made(adler32(text(&v[0])).to_string())),
    ),
    (
        "bcrypt",
        function(&[T], None, |run, v| made(bcrypt(run, text(&v[0]))?)),
    ),
    (
        "htpasswd",
        function(&[T, T], None, |run, v| {
            let user = text(&v[0]);
            if user.contains(':') {
                return made(format!("invalid username: {user}"));
            }
            let hash = bcrypt(run, text(&v[1]))?;
            made(format!("{user}:{hash}"))
        }),
    ),
    (
        "derivePassword",
        function(&[Type::Uint32, T, T, T, T], None, derive_password),
    ),
    (
        "encryptAES",
        function(&[T, T], None, |run, v| {
            if text(&v[1]).is_empty() {
                return made("");
            }
            let vector = run.random_bytes();
            let encrypted = aes_key(text(&v[0]))?.encrypt(vector, text(&v[1]).as_bytes());
            made(STANDARD.encode([vector.as_slice(), &encrypted].concat()))
        }),
    ),
    ("decryptAES", function(&[T, T], None, decrypt_aes)),
    (
        "randBytes",
        function(&[I], None, |run, v| {
            let Ok(count) = usize::try_from(int(&v[0])) else {
                return Err("runtime error: makeslice: len out of range".into());
            };
            run.fits(count)?;
            run.noticed.volatile = true;
            let mut bytes = vec![0; count];
            run.host.random(&mut bytes);
            made(STANDARD.encode(bytes))
        }),
    ),
    (
        "uuidv4",
        function(&[], None, |run, _| {
            let mut bytes: [u8; 16] = run.random_bytes();
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            let digits = hex(&bytes);
            let parts = [
                &digits[..8],
                &digits[8..12],
                &digits[12..16],
                &digits[16..20],
                &digits[20..],
            ];
            made(parts.join("-"))
        }),
    ),
    (
        "randAlphaNum",
        function(&[I], None, |run, v| {
            random_text(run, int(&v[0]), |c| c.is_ascii_alphanumeric())
        }),
    ),
    (
        "randAlpha",
        function(&[I], None, |run, v| {
            random_text(run, int(&v[0]), |c| c.is_ascii_alphabetic())
        }),
    ),
    (
        "randNumeric",
        function(&[I], None, |run, v| {
            random_text(run, int(&v[0]), |c| c.is_ascii_digit())
        }),
    ),
    (
        "randAscii",
        function(&[I], None, |run, v| {
            random_text(run, int(&v[0]), |c| (' '..='~').contains(&c))
        }),
    ),
    (
        "getHostByName",
        function(&[T], None, |run, v| {
            run.noticed.volatile = true;
            let addresses = run.host.addresses(text(&v[0]));
            if addresses.is_empty() {
                return Err("invalid argument to Intn".into());
            }
            let chosen = run.random_below(addresses.len() as u64) as usize;
            made(&addresses[chosen])
        }),
    ),
];

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

fn adler32(text: &str) -> u32 {
    const MODULUS: u32 = 65_521;
    let (a, b) = text.bytes().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(byte)) % MODULUS;
        (a, (b + a) % MODULUS)
    });
    (b << 16) | a
}

fn bcrypt(run: &mut Run<'_>, password: &str) -> Result<String, Failure> {
    const COST: u32 = 10;
    if password.len() > 72 {
        return Ok(
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
                .to_owned(),
        );
    }
    run.spend(BCRYPT_STEPS)?;
    let salt: [u8; 16] = run.random_bytes();
    let mut bytes = password.as_bytes().to_vec();
    bytes.push(0);
    bytes.truncate(72);
    let hash = ::bcrypt::bcrypt(COST, salt, &bytes);
    Ok(format!(
        "$2a${COST}${}{}",
        bcrypt_base64(&salt),
        bcrypt_base64(&hash[..23])
    ))
}

/// bcrypt uses a different alphabet.
fn bcrypt_base64(bytes: &[u8]) -> String {
    const USUAL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const OWN: &[u8] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let own = |letter: u8| {
        USUAL
            .iter()
            .position(|usual| *usual == letter)
            .map(|at| char::from(OWN[at]))
    };
    STANDARD.encode(bytes).bytes().filter_map(own).collect()
}

/// The master password algorithm: the same inputs give the same password.
fn derive_password(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let (kind, password) = (text(&values[1]), text(&values[2]));
    let (user, site) = (text(&values[3]), text(&values[4]));
    let Some(templates) = password_templates(kind) else {
        return made(format!("cannot find password template {kind}"));
    };
    run.spend(SCRYPT_STEPS)?;
    let sized = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let salt = [SEED, &sized(user)].concat();
    let mut key = [0; 64];
    let parameters = scrypt::Params::new(15, 8, 2).map_err(|error| error.to_string())?;
    scrypt::scrypt(password.as_bytes(), &salt, &parameters, &mut key)
        .map_err(|error| error.to_string())?;
    let counter = int(&values[0]) as u32;
    let message = [SEED, &sized(site), &counter.to_be_bytes()].concat();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(&message);
    let seed = mac.finalize().into_bytes();
    let template = templates[usize::from(seed[0]) % templates.len()];
    let letters = template.bytes().zip(&seed[1..]).map(|(class, number)| {
        let letters = password_letters(class);
        char::from(letters[usize::from(*number) % letters.len()])
    });
    made(letters.collect::<String>())
}

fn password_templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn password_letters(class: u8) -> &'static [u8] {
    match class {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// A password as a key: cut or filled with zeros to 32 bytes.
fn aes_key(password: &str) -> Result<Key, Failure> {
    let mut bytes = [0; 32];
    let length = password.len().min(32);
    bytes[..length].copy_from_slice(&password.as_bytes()[..length]);
    Key::new(&bytes).map_err(|error| Failure::Message(error.to_string()))
}

fn decrypt_aes(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let encoded = text(&values[1]);
    if encoded.is_empty() {
        return made("");
    }
    let bytes = super::encoding::decode(
        encoded,
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        4,
    )
    .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    let (Some((vector, encrypted)), true) = (bytes.split_first_chunk::<16>(), bytes.len() > 16)
    else {
        return Err("crypto/cipher: input not full blocks".into());
    };
    if !encrypted.len().is_multiple_of(16) {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let plain = aes_key(text(&values[0]))?.decrypt(*vector, encrypted);
    let padding = usize::from(plain.last().copied().unwrap_or(0));
    let Some(length) = plain.len().checked_sub(padding) else {
        let length = plain.len() as i64 - padding as i64;
        return Err(format!("runtime error: slice bounds out of range [:{length}]").into());
    };
    made(String::from_utf8_lossy(&plain[..length]))
}

fn random_text(run: &mut Run<'_>, count: i64, wanted: fn(char) -> bool) -> Outcome {
    let letters: Vec<char> = (' '..='~').filter(|c| wanted(*c)).collect();
    let Ok(count) = usize::try_from(count) else {
        return made("");
    };
    run.fits(count)?;
    run.spend(count as u64 / 8)?;
    let text: String = (0..count)
        .map(|_| letters[run.random_below(letters.len() as u64) as usize])
        .collect();
    made(text)
}
