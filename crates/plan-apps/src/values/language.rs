//! What a template of values may say.
//!
//! It runs in the operator, and whoever may write an `App` writes it. Fuel counts steps, and one step may double a text: so nothing is bound to a
//! name but what is there already, a tag is short, and what makes text long counts it first.

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// Longest text, in bytes: values go to the program by its environment.
pub(super) const LONGEST: usize = 64 << 10;
/// Words and signs of a tag at most, and `elif`s: whoever reads more of them goes deep, and the stack ends.
const TAG: usize = 60;
const ELIFS: usize = 30;
/// Filters without arguments.
const PLAIN: [&str; 8] = ["first", "int", "items", "last", "length", "lower", "safe", "upper"];
/// Filters that take arguments.
const WITH_ARGUMENTS: [&str; 4] = ["default", "join", "replace", "split"];

/// What is wrong in which line.
pub(super) struct Refused {
    pub(super) line: u16,
    pub(super) why: String,
}

/// Whether a text may be parsed. What is no language at all is for the parser to say.
pub(super) fn check_tags(text: &str, syntax: SyntaxConfig) -> Result<(), Refused> {
    let (mut inside, mut elifs) = (0, 0);
    for (token, span) in tokenize(text, false, syntax).map_while(Result::ok) {
        inside = match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => 0,
            _ => inside + 1,
        };
        elifs += usize::from(matches!(token, Token::Ident("elif")));
        if inside > TAG || elifs > ELIFS {
            let why = format!("a tag has more than {TAG} words and signs, or there are more than {ELIFS} elif");
            return Err(Refused { line: span.start_line, why });
        }
    }
    Ok(())
}

/// Whether all of a template is taken.
pub(super) fn check(statements: &[Stmt<'_>]) -> Result<(), Refused> {
    statements.iter().try_for_each(statement)
}

fn statement(statement: &Stmt<'_>) -> Result<(), Refused> {
    match statement {
        Stmt::Template(all) => check(&all.children),
        Stmt::EmitRaw(_) => Ok(()),
        Stmt::EmitExpr(shown) => expression(&shown.expr),
        Stmt::IfCond(cond) => {
            expression(&cond.expr)?;
            check(&cond.true_body)?;
            check(&cond.false_body)
        }
        Stmt::ForLoop(each) => {
            let line = each.span().start_line;
            if each.recursive || !is_there(&each.iter) {
                let why = "loop over what is known of the tenant, such as cluster.network.podCIDRs, and nothing else"
                    .to_owned();
                return Err(Refused { line, why });
            }
            each.filter_expr.iter().try_for_each(expression)?;
            check(&each.body)?;
            check(&each.else_body)
        }
        _ => Err(Refused { line: 0, why: "of statements only if and for are taken".to_owned() }),
    }
}

/// Whether an expression names a part of what is there.
fn is_there(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Var(_) => true,
        Expr::GetAttr(of) => is_there(&of.expr),
        Expr::GetItem(of) => matches!(of.subscript_expr, Expr::Const(_)) && is_there(&of.expr),
        Expr::Filter(filter) => {
            let has_constants = filter.args.iter().all(|arg| matches!(arg, CallArg::Pos(Expr::Const(_))));
            ["items", "split"].contains(&filter.name) && has_constants && filter.expr.as_ref().is_some_and(is_there)
        }
        _ => false,
    }
}

fn expression(expr: &Expr<'_>) -> Result<(), Refused> {
    part(expr).map_err(|why| Refused { line: expr.span().start_line, why })
}

fn part(expr: &Expr<'_>) -> Result<(), String> {
    let all = |parts: &[&Expr<'_>]| parts.iter().try_for_each(|expr| part(expr));
    match expr {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::UnaryOp(of) => part(&of.expr),
        Expr::BinOp(of) => match of.op {
            BinOpKind::Mul | BinOpKind::Pow => Err("* is not taken".to_owned()),
            _ => all(&[&of.left, &of.right]),
        },
        Expr::Compare(of) => {
            part(&of.expr)?;
            of.ops.iter().try_for_each(|op| part(&op.expr))
        }
        Expr::IfExpr(of) => {
            all(&[&of.test_expr, &of.true_expr])?;
            of.false_expr.iter().try_for_each(part)
        }
        Expr::GetAttr(of) => part(&of.expr),
        Expr::GetItem(of) => all(&[&of.expr, &of.subscript_expr]),
        Expr::Slice(of) => {
            part(&of.expr)?;
            [&of.start, &of.stop, &of.step].into_iter().flatten().try_for_each(part)
        }
        Expr::Filter(of) => {
            let is_known = WITH_ARGUMENTS.contains(&of.name) || (PLAIN.contains(&of.name) && of.args.is_empty());
            if !is_known {
                let (plain, more) = (PLAIN.join(", "), WITH_ARGUMENTS.join(", "));
                return Err(format!("filter {} is not taken so: {plain} are, without arguments, and {more}", of.name));
            }
            of.expr.iter().try_for_each(part)?;
            arguments(&of.args)
        }
        Expr::Test(of) => {
            part(&of.expr)?;
            arguments(&of.args)
        }
        Expr::List(of) => of.items.iter().try_for_each(part),
        Expr::Tuple(of) => of.items.iter().try_for_each(part),
        Expr::Map(of) => of.keys.iter().chain(&of.values).try_for_each(part),
        Expr::Call(_) => Err("functions are not taken".to_owned()),
    }
}

fn arguments(arguments: &[CallArg<'_>]) -> Result<(), String> {
    arguments.iter().try_for_each(|argument| match argument {
        CallArg::Pos(expr) | CallArg::Kwarg(_, expr) => part(expr),
        CallArg::PosSplat(_) | CallArg::KwargSplat(_) => Err("arguments by * are not taken".to_owned()),
    })
}

/// Whether a template reads that field of the tenant.
pub(super) fn reads(variables: &HashSet<String>, field: &str) -> bool {
    let read = |name: &String| name.strip_prefix("cluster.").and_then(|rest| rest.split('.').next()) == Some(field);
    variables.iter().any(read)
}

fn too_long() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a text is longer than {LONGEST} bytes"))
}

/// `join`, of no more than [`LONGEST`].
pub(super) fn join(items: &Value, between: Option<Cow<'_, str>>) -> Result<String, Error> {
    let between = between.unwrap_or_default();
    let mut out = String::new();
    for (n, item) in items.try_iter()?.checked().enumerate() {
        if n > 0 {
            out.push_str(&between);
        }
        out.push_str(&item?.to_string());
        if out.len() > LONGEST {
            return Err(too_long());
        }
    }
    Ok(out)
}

/// `replace`, likewise.
pub(super) fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let grown = text.matches(from).count().saturating_mul(to.len()).saturating_add(text.len());
    if grown > LONGEST { Err(too_long()) } else { Ok(text.replace(from, to)) }
}
