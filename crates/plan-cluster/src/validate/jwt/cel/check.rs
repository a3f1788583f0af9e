//! Names and types of an expression. What is not known passes.

use super::functions::{TYPES, function, method, of_library};
use super::types::Type::{
    self, Any, Bool, Bytes, Double, Int, List, Map, Null, Opaque, Optional, Text, Uint, Unknown, User,
};
use super::types::Variable;
use ::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use berth_api::text::TenantText;

/// The type of an expression that has this variable, or what is wrong with it.
pub(super) fn type_of(tree: &IdedExpr, variable: Variable) -> Result<Type, String> {
    let own = match variable {
        Variable::Claims => ("claims".to_owned(), Type::map(Text, Any)),
        Variable::User => ("user".to_owned(), User),
    };
    Scope { names: vec![own], variable }.of(tree)
}

struct Scope {
    /// The last one counts.
    names: Vec<(String, Type)>,
    variable: Variable,
}

/// Macros of Kubernetes that the parser leaves as calls: how many names begin their arguments.
const MACROS: &[(&str, usize, usize, Type)] = &[
    ("all", 2, 3, Bool),
    ("exists", 2, 3, Bool),
    ("existsOne", 2, 3, Bool),
    ("exists_one", 2, 3, Bool),
    ("transformList", 2, 3, Unknown),
    ("transformList", 2, 4, Unknown),
    ("transformMap", 2, 3, Unknown),
    ("transformMap", 2, 4, Unknown),
    ("transformMapEntry", 2, 3, Unknown),
    ("transformMapEntry", 2, 4, Unknown),
    ("optMap", 1, 2, Opaque),
    ("optFlatMap", 1, 2, Opaque),
];

impl Scope {
    fn of(&mut self, tree: &IdedExpr) -> Result<Type, String> {
        match &tree.expr {
            Expr::Unspecified => Ok(Unknown),
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let all = list.elements.iter().map(|one| self.of(one)).collect::<Result<Vec<_>, _>>()?;
                alike(all).map(Type::list)
            }
            Expr::Map(map) => {
                let all = map.entries.iter().map(|one| self.entry(&one.expr)).collect::<Result<Vec<_>, _>>()?;
                let (keys, values) = all.into_iter().unzip();
                Ok(Type::map(alike(keys)?, alike(values)?))
            }
            Expr::Struct(of) => {
                if !of.type_name.trim_start_matches('.').starts_with("google.protobuf.") {
                    return Err(format!("there is no type {} to make a value of", said(&of.type_name)));
                }
                of.entries.iter().try_for_each(|entry| self.entry(&entry.expr).map(drop))?;
                Ok(Opaque)
            }
            Expr::Comprehension(of) => self.comprehension(of),
        }
    }

    /// Types of a key, if there is one, and its value.
    fn entry(&mut self, entry: &EntryExpr) -> Result<(Type, Type), String> {
        match entry {
            EntryExpr::StructField(field) => Ok((Unknown, self.of(&field.value)?)),
            EntryExpr::MapEntry(entry) => Ok((self.of(&entry.key)?, self.of(&entry.value)?)),
        }
    }

    fn known(&self, name: &str) -> Option<Type> {
        let name = name.trim_start_matches('.');
        self.names.iter().rev().find(|(known, _)| known == name).map(|(_, of)| of.clone())
    }

    fn name(&self, name: &str) -> Result<Type, String> {
        if let Some(known) = self.known(name) {
            return Ok(known);
        }
        if TYPES.contains(&name.trim_start_matches('.')) {
            return Ok(Opaque);
        }
        let own = match self.variable {
            Variable::Claims => "claims",
            Variable::User => "user",
        };
        Err(format!("there is no variable {}; the expression has {own}", said(name)))
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Type, String> {
        if let Some(path) = path(select).filter(|path| TYPES.contains(&&**path)) {
            let root = path.split('.').next().unwrap_or_default();
            if self.known(root).is_none() {
                return Ok(Opaque);
            }
        }
        let of = self.of(&select.operand)?;
        let found = field(&of, &select.field)?;
        Ok(if select.test { Bool } else { found })
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Result<Type, String> {
        let (first, second) = match self.of(&of.iter_range)? {
            List(element) if of.iter_var2.is_some() => (Int, *element),
            List(element) => (*element, Unknown),
            Map(key, value) => (*key, *value),
            Any => {
                return Err(
                    "a claim has no elements until it is known to be a list; write dyn(claims.groups)".to_owned()
                );
            }
            open if open.is_open() => (Unknown, Unknown),
            other => return Err(format!("{} has no elements", other.name())),
        };
        let depth = self.names.len();
        let mut accumulated = self.of(&of.accu_init)?;
        if let List(_) = accumulated {
            accumulated = Type::list(Unknown);
        }
        self.names.push((of.accu_var.clone(), accumulated));
        self.names.push((of.iter_var.clone(), first));
        self.names.extend(of.iter_var2.clone().map(|name| (name, second)));
        let body = self.of(&of.loop_cond).and_then(|_| self.of(&of.loop_step));
        self.names.truncate(depth + 1);
        let given = body.and_then(|_| self.of(&of.result));
        self.names.truncate(depth);
        given
    }

    fn call(&mut self, call: &CallExpr) -> Result<Type, String> {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target {
            if let Some(given) = self.special(name, target, &call.args)? {
                return Ok(given);
            }
            let on = self.of(target)?;
            let given = self.all(&call.args)?;
            return method(&on, name, &given)
                .ok_or_else(|| format!("{} has no function {} with such arguments", on.name(), said(name)));
        }
        let given = self.all(&call.args)?;
        match given.as_slice() {
            [one] if [operators::LOGICAL_NOT, operators::NEGATE, operators::NOT_STRICTLY_FALSE].contains(&name) => {
                unary(name, one)
            }
            [left, right] if is_binary(name) => binary(name, left, right),
            [left, right] if [operators::INDEX, operators::OPT_INDEX].contains(&name) => {
                let found = index(left, right)?;
                Ok(if name == operators::INDEX { found } else { optional(found) })
            }
            [of, _] if name == operators::OPT_SELECT => match call.args.get(1).map(|field| &field.expr) {
                Some(Expr::Literal(LiteralValue::String(text))) => field(of, text.inner()).map(optional),
                _ => Ok(Unknown),
            },
            [condition, yes, no] if name == operators::CONDITIONAL => {
                logical(condition)?;
                if yes.fits(no) {
                    return Ok(yes.clone().joined(no.clone()));
                }
                Err(format!("? gives {} or {}", yes.name(), no.name()))
            }
            _ => {
                function(name, &given).ok_or_else(|| format!("there is no function {} with such arguments", said(name)))
            }
        }
    }

    fn all(&mut self, args: &[IdedExpr]) -> Result<Vec<Type>, String> {
        args.iter().map(|arg| self.of(arg)).collect()
    }

    /// Macros, and functions of libraries: what stands before the dot is no value, or the first arguments are none.
    fn special(&mut self, name: &str, target: &IdedExpr, args: &[IdedExpr]) -> Result<Option<Type>, String> {
        if let Expr::Ident(library) = &target.expr
            && self.known(library).is_none()
            && let Some(found) = of_library(library, name, args.len())
        {
            self.all(args)?;
            let none = || format!("there is no function {library}.{} with such arguments", said(name));
            return found.map(Some).ok_or_else(none);
        }
        let row = MACROS.iter().find(|(of, _, count, _)| *of == name && *count == args.len());
        let Some((_, count, _, gives)) = row else { return Ok(None) };
        if self.of(target)? == Any && *count == 2 {
            return Err(
                "a claim has no elements until it is known to be a list or a map; write dyn(claims.groups)".to_owned()
            );
        }
        let (names, rest) = args.split_at(*count);
        let depth = self.names.len();
        for one in names {
            let Expr::Ident(name) = &one.expr else { return Err(format!("{name} begins with names of its own")) };
            self.names.push((name.clone(), Unknown));
        }
        let within = self.all(rest);
        self.names.truncate(depth);
        let is_optional = ["optMap", "optFlatMap"].contains(&name);
        within.map(|_| Some(if is_optional { optional(Unknown) } else { gives.clone() }))
    }
}

/// A name from the expression, on one line.
fn said(name: &str) -> TenantText {
    TenantText::of(name, 63)
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Bool,
        LiteralValue::Bytes(_) => Bytes,
        LiteralValue::Double(_) => Double,
        LiteralValue::Int(_) => Int,
        LiteralValue::Null => Null,
        LiteralValue::String(_) => Text,
        LiteralValue::UInt(_) => Uint,
    }
}

/// `a.b.c`.
fn path(select: &SelectExpr) -> Option<String> {
    let before = match &select.operand.expr {
        Expr::Ident(name) => name.clone(),
        Expr::Select(before) => path(before)?,
        _ => return None,
    };
    Some(format!("{before}.{}", select.field))
}

fn field(of: &Type, name: &str) -> Result<Type, String> {
    match of {
        User => match name {
            "username" | "uid" => Ok(Text),
            "groups" => Ok(Type::list(Text)),
            "extra" => Ok(Type::map(Text, Type::list(Text))),
            _ => Err(format!("user has no field {}; it has username, uid, groups and extra", said(name))),
        },
        Map(_, value) => Ok((**value).clone()),
        Any => Ok(Any),
        Optional(of) => field(of, name),
        open if open.is_open() => Ok(Unknown),
        other => Err(format!("{} has no field {}", other.name(), said(name))),
    }
}

fn index(of: &Type, by: &Type) -> Result<Type, String> {
    let wrong = || Err(format!("{} has no [{}]", of.name(), by.name()));
    match of {
        List(element) if by.is_number() || by.is_open() => Ok((**element).clone()),
        Map(key, value) if key.fits(by) => Ok((**value).clone()),
        Any => Ok(Any),
        Optional(of) => index(of, by),
        open if open.is_open() => Ok(Unknown),
        _ => wrong(),
    }
}

fn logical(of: &Type) -> Result<Type, String> {
    if *of == Bool || of.is_open() { Ok(Bool) } else { Err(format!("{} is not true or false", of.name())) }
}

fn unary(name: &str, of: &Type) -> Result<Type, String> {
    match of {
        _ if name != operators::NEGATE => logical(of),
        Int | Double => Ok(of.clone()),
        open if open.is_open() => Ok(Opaque),
        other => Err(format!("- does not go with {}", other.name())),
    }
}

fn is_binary(name: &str) -> bool {
    let logical = [operators::LOGICAL_AND, operators::LOGICAL_OR];
    let compares = [operators::EQUALS, operators::NOT_EQUALS, operators::IN];
    logical.contains(&name) || compares.contains(&name) || is_order(name) || is_arithmetic(name)
}

fn is_order(name: &str) -> bool {
    [operators::LESS, operators::LESS_EQUALS, operators::GREATER, operators::GREATER_EQUALS].contains(&name)
}

fn is_arithmetic(name: &str) -> bool {
    use operators::{ADD, DIVIDE, MODULO, MULTIPLY, SUBSTRACT};
    [ADD, SUBSTRACT, MULTIPLY, DIVIDE, MODULO].contains(&name)
}

fn binary(name: &str, left: &Type, right: &Type) -> Result<Type, String> {
    let sign = name.trim_matches(['_', '@']);
    let wrong = || Err(format!("{sign} does not go with {} and {}", left.name(), right.name()));
    let both = |good: fn(&Type) -> bool| (good(left) || left.is_open()) && (good(right) || right.is_open());
    if [operators::LOGICAL_AND, operators::LOGICAL_OR].contains(&name) {
        logical(left)?;
        return logical(right);
    }
    if name == operators::IN {
        return match right {
            List(element) if element.fits(left) => Ok(Bool),
            Map(key, _) if key.fits(left) => Ok(Bool),
            open if open.is_open() => Ok(Bool),
            _ => wrong(),
        };
    }
    if is_order(name) {
        let good = both(|of| matches!(of, Bool | Int | Uint | Double | Text | Bytes))
            && (left.fits(right) || left.is_number() && right.is_number());
        return if good { Ok(Bool) } else { wrong() };
    }
    if !is_arithmetic(name) {
        return if left.fits(right) { Ok(Bool) } else { wrong() };
    }
    let good = match name {
        operators::ADD => both(|of| of.is_number() || matches!(of, Text | Bytes | List(_))),
        operators::MODULO => both(|of| matches!(of, Int | Uint)),
        _ => both(Type::is_number),
    };
    if !good || !left.fits(right) {
        return wrong();
    }
    // Whatever it is, it is not true or false.
    Ok(if left == right && !left.is_open() { left.clone() } else { Opaque })
}

/// Elements of a list have one type.
fn alike(all: Vec<Type>) -> Result<Type, String> {
    let mut all = all.into_iter();
    let first = all.next().unwrap_or(Unknown);
    all.try_fold(first, |one, other| {
        let is_claim = |of: &Type| *of == Any;
        let differs =
            is_claim(&one) != is_claim(&other) && [&one, &other].iter().all(|of| is_claim(of) || !of.is_open());
        if differs || !one.fits(&other) {
            return Err(format!(
                "what stands in a list or map has to be of one type, not {} and {}",
                one.name(),
                other.name()
            ));
        }
        Ok(one.joined(other))
    })
}

fn optional(of: Type) -> Type {
    match of {
        already @ Optional(_) => already,
        of => Optional(Box::new(of)),
    }
}
