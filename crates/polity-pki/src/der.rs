//! A minimal DER encoder for names. rcgen supports only one value per attribute type, but a user in three groups has
//! three `O` values, and an external authority may have any name. Such a certificate is signed twice: once by rcgen,
//! then again here with the name replaced.

/// Why a certificate could not be taken apart: it was not the DER we expect of rcgen.
#[derive(Debug, thiserror::Error)]
#[error("malformed DER")]
pub(crate) struct Malformed;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;

/// A name in a version 3 TBSCertificate, which holds version, serial number, signature algorithm,
/// issuer, validity, subject and more, in this order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameOf {
    Issuer = 3,
    Subject = 5,
}

/// An X.520 attribute type that we write, as encoded object identifier.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attribute {
    CommonName,
    Organization,
}

impl Attribute {
    fn oid(self) -> &'static [u8] {
        match self {
            Self::CommonName => &[0x55, 0x04, 0x03],
            Self::Organization => &[0x55, 0x04, 0x0a],
        }
    }
}

/// A Name with one relative distinguished name per attribute, in the given order.
pub(crate) fn name(attributes: &[(Attribute, &str)]) -> Vec<u8> {
    let rdns: Vec<u8> = attributes
        .iter()
        .flat_map(|(attribute, value)| {
            let pair = [
                element(OBJECT_IDENTIFIER, attribute.oid()),
                element(UTF8_STRING, value.as_bytes()),
            ];
            element(SET, &element(SEQUENCE, &pair.concat()))
        })
        .collect();
    element(SEQUENCE, &rdns)
}

/// Replaces a name of a certificate and signs it again with `sign`.
pub(crate) fn with_name<E: From<Malformed>>(
    certificate: &[u8],
    of: NameOf,
    name: &[u8],
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let (outer, _) = split(certificate)?;
    let parts = elements(outer.content)?;
    let [tbs, algorithm, _signature] = parts[..] else {
        return Err(Malformed.into());
    };

    let mut fields: Vec<&[u8]> = elements(tbs.content)?
        .iter()
        .map(|field| field.whole)
        .collect();
    *fields.get_mut(of as usize).ok_or(Malformed)? = name;
    let tbs = element(SEQUENCE, &fields.concat());

    // A bit string starts with the number of unused bits in its last byte.
    let signature = element(BIT_STRING, &[&[0][..], &sign(&tbs)?].concat());
    Ok(element(
        SEQUENCE,
        &[&tbs, algorithm.whole, &signature].concat(),
    ))
}

/// The key inside of PKCS#8, which holds version, algorithm, the key as octets and more.
pub(crate) fn key_in_pkcs8(pkcs8: &[u8]) -> Result<&[u8], Malformed> {
    let (outer, _) = split(pkcs8)?;
    match elements(outer.content)?.get(2) {
        Some(key) if key.whole.first() == Some(&OCTET_STRING) => Ok(key.content),
        _ => Err(Malformed),
    }
}

/// One element: its whole encoding, and its content alone.
#[derive(Clone, Copy)]
struct Element<'a> {
    whole: &'a [u8],
    content: &'a [u8],
}

/// Encodes one element.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | significant.len() as u8);
            out.extend_from_slice(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Takes all elements of a constructed element's content.
fn elements(mut content: &[u8]) -> Result<Vec<Element<'_>>, Malformed> {
    let mut found = Vec::new();
    while !content.is_empty() {
        let (first, rest) = split(content)?;
        found.push(first);
        content = rest;
    }
    Ok(found)
}

/// Splits the first element off `input`. Returns it and the rest.
fn split(input: &[u8]) -> Result<(Element<'_>, &[u8]), Malformed> {
    let [_tag, first, after @ ..] = input else {
        return Err(Malformed);
    };
    let n_length_bytes = if *first < 0x80 {
        0
    } else {
        usize::from(*first & 0x7f)
    };
    if n_length_bytes > size_of::<usize>() {
        return Err(Malformed);
    }
    let (length_bytes, after) = after.split_at_checked(n_length_bytes).ok_or(Malformed)?;
    let length = match n_length_bytes {
        0 => usize::from(*first),
        _ => length_bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
    };
    let (content, rest) = after.split_at_checked(length).ok_or(Malformed)?;
    let whole = &input[..input.len() - rest.len()];
    Ok((Element { whole, content }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_shortest_form() {
        for (n, header) in [
            (0, vec![0x30, 0]),
            (127, vec![0x30, 127]),
            (128, vec![0x30, 0x81, 128]),
            (255, vec![0x30, 0x81, 255]),
            (256, vec![0x30, 0x82, 1, 0]),
            (70_000, vec![0x30, 0x83, 1, 0x11, 0x70]),
        ] {
            let content = vec![7; n];
            let encoded = element(SEQUENCE, &content);
            assert_eq!(&encoded[..header.len()], header, "{n} bytes");
            let (back, rest) = split(&encoded).unwrap();
            assert_eq!(
                (back.content, back.whole, rest),
                (&content[..], &encoded[..], &[][..])
            );
        }
    }

    #[test]
    fn broken_elements_are_refused() {
        for input in [
            &[][..],
            &[0x30],
            &[0x30, 1],
            &[0x30, 0x82, 1],
            &[0x30, 0xff],
            &[0x30, 0x81],
        ] {
            assert!(split(input).is_err(), "{input:?}");
        }
    }
}
