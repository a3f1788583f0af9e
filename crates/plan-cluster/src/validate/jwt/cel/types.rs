//! Types of expressions.

/// The variable that an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    /// `claims`, of any type each.
    Claims,
    /// `user`, with `username`, `uid`, `groups` and `extra`.
    User,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A claim, or what is made of claims: a type of its own, though most of what is done with it is judged when there is a value.
    Any,
    /// Whatever there is when there is a value.
    Dyn,
    /// Nothing is known of it here, whatever the compiler knows.
    Unknown,
    /// One of a library, such as of an address or an optional value.
    Opaque,
    /// Perhaps a value.
    Optional(Box<Type>),
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    List(Box<Type>),
    /// Keys and values.
    Map(Box<Type>, Box<Type>),
    /// `kubernetes.UserInfo`.
    User,
}

use Type::{Any, Bool, Bytes, Double, Dyn, Int, List, Map, Null, Opaque, Optional, Text, Uint, Unknown, User};

impl Type {
    pub(super) fn list(of: Type) -> Self {
        List(Box::new(of))
    }

    pub(super) fn map(keys: Type, values: Type) -> Self {
        Map(Box::new(keys), Box::new(values))
    }

    /// It is judged when there is a value.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Any | Dyn | Unknown | Opaque | Optional(_))
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Int | Uint | Double)
    }

    /// Whether a value of one may stand where the other is.
    pub(super) fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (a, b) if a.is_open() || b.is_open() => true,
            (List(a), List(b)) => a.fits(b),
            (Map(a, b), Map(c, d)) => a.fits(c) && b.fits(d),
            (Null, List(_) | Map(..) | User) | (List(_) | Map(..) | User, Null) => true,
            (a, b) => a == b,
        }
    }

    /// What both are.
    pub(super) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Any, _) | (_, Any) => Any,
            _ => Unknown,
        }
    }

    /// As users know it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Any => "a claim",
            Dyn | Unknown | Opaque | Optional(_) => "a value",
            Bool => "true or false",
            Int | Uint | Double => "a number",
            Text => "a string",
            Bytes => "bytes",
            Null => "null",
            List(_) => "a list",
            Map(..) => "a map",
            User => "a user",
        }
    }
}
