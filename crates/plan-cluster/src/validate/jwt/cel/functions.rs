//! Functions that kube-apiserver's expressions have: those of CEL, and of Kubernetes' libraries for strings, lists, sets, regular
//! expressions, URLs, addresses, quantities, versions, formats and optional values.

use super::types::Type::{self, Bool, Bytes, Double, Dyn, Int, List, Map, Null, Opaque, Text, Uint, Unknown};

/// What an argument has to be, a letter each: `t` text, `i` integer, `n` a number or text, `s` something with a size, `l` a list, `c` no list and no map, `b` true, false or
/// text, `.` whatever.
type Arguments = &'static str;

/// What a method is called on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Text,
    Bytes,
    List,
    Map,
    /// A type of a library.
    Opaque,
}

type Method = (On, &'static [&'static str], &'static [Arguments], Type);

const METHODS: &[Method] = &[
    (On::Text, &["contains", "startsWith", "endsWith", "matches"], &["t"], Bool),
    (On::Text, &["charAt"], &["i"], Text),
    (On::Text, &["indexOf", "lastIndexOf"], &["t", "ti"], Int),
    (On::Text, &["lowerAscii", "upperAscii", "trim"], &[""], Text),
    (On::Text, &["replace"], &["tt", "tti"], Text),
    (On::Text, &["split", "findAll"], &["t", "ti"], Opaque),
    (On::Text, &["substring"], &["i", "ii"], Text),
    (On::Text, &["find"], &["t"], Text),
    (On::Text, &["format"], &["l"], Text),
    (On::Text, &["size"], &[""], Int),
    (On::Bytes, &["size"], &[""], Int),
    (On::List, &["size"], &[""], Int),
    (On::List, &["isSorted"], &[""], Bool),
    (On::List, &["sum", "min", "max", "first", "last"], &[""], Opaque),
    (On::List, &["indexOf", "lastIndexOf"], &["."], Int),
    (On::List, &["join"], &["", "t"], Text),
    (On::List, &["flatten", "distinct", "reverse", "sort", "slice"], &["", "i", "ii"], Opaque),
    (On::Map, &["size"], &[""], Int),
    (
        On::Opaque,
        &["getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"],
        &["", "t"],
        Int,
    ),
    (On::Opaque, &["getHours", "getMinutes", "getSeconds", "getMilliseconds"], &["", "t"], Int),
    (On::Opaque, &["getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"], &[""], Text),
    (On::Opaque, &["getQuery", "masked", "ip"], &[""], Opaque),
    (On::Opaque, &["family", "prefixLength", "sign", "asInteger", "major", "minor", "patch"], &[""], Int),
    (On::Opaque, &["isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast"], &[""], Bool),
    (On::Opaque, &["isGlobalUnicast", "isInteger"], &[""], Bool),
    (On::Opaque, &["containsIP", "containsCIDR", "isLessThan", "isGreaterThan"], &["."], Bool),
    (On::Opaque, &["asApproximateFloat"], &[""], Double),
    (On::Opaque, &["add", "sub", "validate"], &["."], Opaque),
    (On::Opaque, &["compareTo"], &["."], Int),
];

type Function = (&'static [&'static str], &'static [Arguments], Type);

const FUNCTIONS: &[Function] = &[
    (&["size"], &["s"], Int),
    (&["type"], &["."], Opaque),
    (&["dyn"], &["."], Dyn),
    (&["int"], &["n"], Int),
    (&["uint"], &["n"], Uint),
    (&["double"], &["n"], Double),
    (&["string"], &["c"], Text),
    (&["bool"], &["b"], Bool),
    (&["bytes"], &["t"], Bytes),
    (&["timestamp", "duration"], &["n"], Opaque),
    (&["matches"], &["tt"], Bool),
    (&["quantity", "url", "ip", "cidr", "semver"], &["t"], Opaque),
    (&["semver"], &["t."], Opaque),
    (&["isQuantity", "isURL", "isIP", "isCIDR", "isSemver"], &["t"], Bool),
    (&["isSemver"], &["t."], Bool),
];

/// Functions that are called with a name before them.
const OF_LIBRARIES: &[(&str, &[&str], usize, Type)] = &[
    ("sets", &["contains", "equivalent", "intersects"], 2, Bool),
    ("optional", &["of", "ofNonZeroValue"], 1, Unknown),
    ("optional", &["none"], 0, Unknown),
    ("strings", &["quote"], 1, Text),
    ("lists", &["range"], 1, Opaque),
    ("ip", &["isCanonical"], 1, Bool),
    ("format", &["named"], 1, Opaque),
    (
        "format",
        &[
            "dns1123Label",
            "dns1123Subdomain",
            "dns1035Label",
            "qualifiedName",
            "dns1123LabelPrefix",
            "dns1123SubdomainPrefix",
            "dns1035LabelPrefix",
            "labelValue",
            "uri",
            "uuid",
            "byte",
            "date",
            "datetime",
        ],
        0,
        Opaque,
    ),
];

/// Names of types, which are values of their own.
pub(super) const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "kubernetes.Quantity",
    "kubernetes.URL",
    "kubernetes.UserInfo",
    "net.CIDR",
    "net.IP",
];

fn fits(arguments: Arguments, given: &[Type]) -> bool {
    let one = |(letter, given): (char, &Type)| {
        given.is_open()
            || match letter {
                't' => *given == Text,
                'i' => *given == Int,
                'n' => given.is_number() || *given == Text,
                's' => matches!(given, Text | Bytes | List(_) | Map(..)),
                'c' => !matches!(given, List(_) | Map(..) | Type::User),
                'b' => matches!(given, Bool | Text),
                'l' => matches!(given, List(_)),
                _ => true,
            }
    };
    arguments.len() == given.len() && arguments.chars().zip(given).all(one)
}

/// What a method gives. None: there is none of that name for that type with such arguments.
pub(super) fn method(on: &Type, name: &str, given: &[Type]) -> Option<Type> {
    if let Type::Optional(of) = on {
        return match (name, given) {
            ("hasValue", []) => Some(Bool),
            ("value", []) => Some((**of).clone()),
            ("orValue", [other]) if of.fits(other) => Some((**of).clone().joined(other.clone())),
            ("or", [_]) => Some(on.clone()),
            _ => None,
        };
    }
    let is_on = |row: On| match on {
        Text => row == On::Text,
        Bytes => row == On::Bytes,
        List(_) => row == On::List,
        Map(..) => row == On::Map,
        Bool | Int | Uint | Double | Null | Type::User => false,
        Opaque => row == On::Opaque,
        Type::Any | Dyn | Unknown | Type::Optional(_) => true,
    };
    let rows = METHODS.iter().filter(|(row, names, ..)| is_on(*row) && names.contains(&name));
    one_type(rows.filter(|(_, _, all, _)| all.iter().any(|a| fits(a, given))).map(|(.., gives)| gives))
}

/// What a function gives. None: there is none of that name with such arguments.
pub(super) fn function(name: &str, given: &[Type]) -> Option<Type> {
    let rows = FUNCTIONS.iter().filter(|(names, ..)| names.contains(&name));
    one_type(rows.filter(|(_, all, _)| all.iter().any(|a| fits(a, given))).map(|(.., gives)| gives))
}

/// What a function of a library gives. None: there is no such library; of one that is, there may be no such function.
#[expect(clippy::option_option)]
pub(super) fn of_library(library: &str, name: &str, given: usize) -> Option<Option<Type>> {
    let mut rows = OF_LIBRARIES.iter().filter(|(of, ..)| *of == library).peekable();
    rows.peek()?;
    let found = rows.find(|(_, names, count, _)| names.contains(&name) && *count == given);
    let is_optional = library == "optional" || name == "named";
    Some(found.map(|(.., gives)| if is_optional { Type::Optional(Box::new(Unknown)) } else { gives.clone() }))
}

fn one_type<'a>(all: impl Iterator<Item = &'a Type>) -> Option<Type> {
    all.cloned().reduce(Type::joined)
}
