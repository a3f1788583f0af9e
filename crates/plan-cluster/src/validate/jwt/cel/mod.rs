//! Expressions of an authenticator, compiled as far as a library can: syntax by the library, and names, functions and types by a checker that
//! refuses only what it is sure of. kube-apiserver has the last word.

mod check;
mod functions;
mod types;

use ::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use berth_api::text::TenantText;
// Its other parser needs more stack than there is for a few hundred brackets, and ends the process.
use ::cel::parser::PrattParser;
use types::Type;

pub(super) use types::Variable;

/// What an expression has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// Whatever: it is looked at when there is a token.
    Any,
    /// True or false, as the compiler sees it: not a claim that happens to be so.
    Bool,
}

/// One that compiles, or was not compiled.
#[derive(Debug)]
pub(super) struct Expression(Option<IdedExpr>);

/// Longer ones are left to kube-apiserver: the tree's depth, and so the stack that it takes, grows with the text.
const LONGEST: usize = 2048;
const STACK: usize = 16 << 20;

/// Why kube-apiserver would not compile it. It has a stack of its own, since the depth of the tree is the user's.
pub(super) fn compile(text: &str, variable: Variable, gives: Gives) -> Result<Expression, String> {
    if text.len() > LONGEST {
        return Ok(Expression(None));
    }
    let thread = std::thread::Builder::new().stack_size(STACK);
    std::thread::scope(|scope| {
        let handle = thread.spawn_scoped(scope, || judge(text, variable, gives));
        // What the library cannot read is left to kube-apiserver, too.
        handle.map_or(Ok(Expression(None)), |handle| handle.join().unwrap_or(Ok(Expression(None))))
    })
}

fn judge(text: &str, variable: Variable, gives: Gives) -> Result<Expression, String> {
    let parser = PrattParser::new().enable_optional_syntax(true);
    let tree = parser.parse(text).map_err(|errors| {
        let first = errors.errors.first();
        let place = first.map(|e| format!("at {}:{}: ", e.pos.0, e.pos.1)).unwrap_or_default();
        let what = first.map_or("it cannot be read", |e| e.msg.trim_start_matches("Syntax error: "));
        format!("{place}{}", TenantText::of(what, 200))
    })?;
    let given = check::type_of(&tree, variable)?;
    if gives == Gives::Bool && !matches!(given, Type::Bool | Type::Unknown) {
        return Err("it has to give true or false; compare a claim, as in claims.admin == true".to_owned());
    }
    Ok(Expression(Some(tree)))
}

impl Expression {
    /// Whether it uses that claim, as `claims.<name>` or `claims.?<name>`.
    pub(super) fn selects(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|tree| selects(tree, name))
    }
}

fn is_claims(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == "claims")
}

fn selects(tree: &IdedExpr, name: &str) -> bool {
    let within = |tree: &IdedExpr| selects(tree, name);
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => within(&field.value),
        EntryExpr::MapEntry(entry) => within(&entry.key) || within(&entry.value),
    };
    match &tree.expr {
        Expr::Select(select) => (is_claims(&select.operand) && select.field == name) || within(&select.operand),
        Expr::Call(call) => {
            let is_it = match call.args.as_slice() {
                [of, field] if call.func_name == operators::OPT_SELECT => is_claims(of) && is_text(field, name),
                _ => false,
            };
            is_it || call.args.iter().any(within) || call.target.as_deref().is_some_and(within)
        }
        Expr::List(list) => list.elements.iter().any(within),
        Expr::Map(map) => map.entries.iter().any(|e| entry(&e.expr)),
        Expr::Struct(of) => of.entries.iter().any(|e| entry(&e.expr)),
        Expr::Comprehension(of) => {
            [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result].into_iter().any(within)
        }
        _ => false,
    }
}

fn is_text(expression: &IdedExpr, text: &str) -> bool {
    matches!(&expression.expr, Expr::Literal(LiteralValue::String(found)) if found.inner() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_ends_nothing() {
        let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        let chain = |link: &str| format!("1{}", link.repeat(LONGEST / link.len() - 1));
        for text in [
            nested("(", ")", 1000),
            nested("[", "]", 1000),
            nested("!", "", 2000),
            nested("-", "", 2000),
            nested("-(", ")", 600),
            chain("+1"),
            chain("&&true"),
            chain("<1"),
            chain("?1:1"),
            format!("claims{}", ".a".repeat(1000)),
            format!("claims{}", "[0]".repeat(600)),
            "[{".repeat(1000),
            "(".repeat(2048),
            "\u{0}".repeat(2000),
            "'\\".repeat(1000),
            "claims.a.all(b,".repeat(130),
            nested("1", "", LONGEST * 20),
        ] {
            let _ = compile(&text, Variable::Claims, Gives::Bool);
        }
    }
}
