//! Macros that loop or bind a name: those the parser has expanded, and those it leaves as calls.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators as op,
};

use super::{Checked, Checker, undeclared};
use crate::node::{Comprehension, ComprehensionKind, Node};
use crate::types::Type;

impl Checker<'_> {
    /// A macro of one variable, which the parser has already expanded into a loop.
    pub(super) fn expanded(&mut self, tree: ComprehensionExpr) -> Checked {
        let kind = match &tree.accu_init.expr {
            Expr::Literal(LiteralValue::Boolean(value)) if *value.inner() => ComprehensionKind::All,
            Expr::Literal(LiteralValue::Boolean(_)) => ComprehensionKind::Exists,
            Expr::Literal(LiteralValue::Int(_)) => ComprehensionKind::ExistsOne,
            _ => ComprehensionKind::List,
        };
        let Some((filter, body)) = parts_of_step(kind, tree.loop_step) else {
            return Err(self.refuse("", "unexpected comprehension"));
        };
        self.comprehension(kind, tree.iter_range, vec![tree.iter_var], filter, body)
    }

    fn comprehension(
        &mut self,
        kind: ComprehensionKind,
        range: IdedExpr,
        variables: Vec<String>,
        filter: Option<IdedExpr>,
        body: IdedExpr,
    ) -> Checked {
        let (range, range_type) = self.check(range)?;
        let Some(element) = range_type.element() else {
            let message = format!(
                "expression of type '{range_type}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            return Err(self.refuse("", &message));
        };
        let two_variables = variables.len() == 2;
        let types = match &range_type {
            _ if !two_variables => vec![element],
            Type::List(element) => vec![Type::Int, (**element).clone()],
            Type::Map(entry) => vec![entry.0.clone(), entry.1.clone()],
            _ => vec![Type::Dyn, Type::Dyn],
        };
        let key_type = types[0].clone();
        let depth = self.locals.len();
        self.locals.extend(variables.into_iter().zip(types));
        let filter = filter.map(|filter| self.bool_operand(filter)).transpose()?;
        let (body, body_type) = self.check(body)?;
        self.locals.truncate(depth);
        let result = match kind {
            ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => {
                if !Type::Bool.overlaps(&body_type) {
                    return Err(
                        self.refuse("", &format!("expected type 'bool' but found '{body_type}'"))
                    );
                }
                Type::Bool
            }
            ComprehensionKind::List => Type::list(body_type),
            ComprehensionKind::Map => Type::map(key_type, body_type),
            ComprehensionKind::Entries => body_type,
        };
        let comprehension = Comprehension {
            kind,
            range,
            two_variables,
            filter,
            body,
        };
        Ok((Node::Comprehension(Box::new(comprehension)), result))
    }

    /// Macros that the parser leaves as calls: their arguments are not evaluated before the call.
    pub(super) fn lazy(&mut self, call: CallExpr) -> Checked {
        let name = call.func_name;
        let Some(target) = call.target else {
            return Err(self.refuse(&name, &undeclared(&name)));
        };
        let mut args = call.args.into_iter();
        let n_variables = if matches!(name.as_str(), "optMap" | "optFlatMap" | "sortBy") {
            1
        } else {
            2
        };
        let mut variables = Vec::with_capacity(n_variables);
        for _ in 0..n_variables {
            match args.next().map(|arg| arg.expr) {
                Some(Expr::Ident(variable)) => variables.push(variable),
                _ => return Err(self.refuse(&name, "argument must be a simple name")),
            }
        }
        let kind = match name.as_str() {
            "optMap" | "optFlatMap" | "sortBy" => None,
            "all" => Some(ComprehensionKind::All),
            "exists" => Some(ComprehensionKind::Exists),
            "transformList" => Some(ComprehensionKind::List),
            "transformMap" => Some(ComprehensionKind::Map),
            "transformMapEntry" => Some(ComprehensionKind::Entries),
            _ => Some(ComprehensionKind::ExistsOne),
        };
        let (filter, body) = match (args.next(), args.next()) {
            (Some(body), None) => (None, body),
            (filter, Some(body)) => (filter, body),
            (None, None) => return Err(self.refuse(&name, &undeclared(&name))),
        };
        match kind {
            Some(kind) => self.comprehension(kind, *target, variables, filter, body),
            None => self.one_local(&name, *target, variables.swap_remove(0), body),
        }
    }

    fn one_local(
        &mut self,
        name: &str,
        target: IdedExpr,
        variable: String,
        body: IdedExpr,
    ) -> Checked {
        let (target, target_type) = self.check(target)?;
        let local = match (&target_type, name) {
            (Type::Dyn, _) => Type::Dyn,
            (Type::List(element), "sortBy") => (**element).clone(),
            (Type::Optional(inner), "optMap" | "optFlatMap") => (**inner).clone(),
            (other, _) => return Err(self.no_overload(name, name, &format!("{other}.(dyn, dyn)"))),
        };
        self.locals.push((variable, local));
        let checked = self.check(body);
        self.locals.pop();
        let (body, body_type) = checked?;
        let (operand, body) = (Box::new(target), Box::new(body));
        Ok(match name {
            "sortBy" => (
                Node::SortBy {
                    list: operand,
                    key: body,
                },
                target_type,
            ),
            "optMap" => (
                Node::OptionalMap {
                    operand,
                    body,
                    flat: false,
                },
                Type::optional(body_type),
            ),
            _ => (
                Node::OptionalMap {
                    operand,
                    body,
                    flat: true,
                },
                body_type,
            ),
        })
    }
}

pub(super) fn is_lazy(name: &str, n_args: usize) -> bool {
    match name {
        "all" | "exists" | "existsOne" | "exists_one" => n_args == 3,
        "transformList" | "transformMap" | "transformMapEntry" => n_args == 3 || n_args == 4,
        "optMap" | "optFlatMap" | "sortBy" => n_args == 2,
        _ => false,
    }
}

/// Takes the filter and the body out of the loop step the parser made of a macro.
fn parts_of_step(kind: ComprehensionKind, step: IdedExpr) -> Option<(Option<IdedExpr>, IdedExpr)> {
    let Expr::Call(mut call) = step.expr else {
        return None;
    };
    match kind {
        ComprehensionKind::All | ComprehensionKind::Exists => Some((None, call.args.pop()?)),
        ComprehensionKind::ExistsOne => Some((None, call.args.into_iter().next()?)),
        _ if call.func_name == op::CONDITIONAL => {
            call.args.truncate(2);
            let append = call.args.pop()?;
            let (_, body) = parts_of_step(kind, append)?;
            Some((call.args.pop(), body))
        }
        _ => match call.args.pop()?.expr {
            Expr::List(mut list) => Some((None, list.elements.pop()?)),
            _ => None,
        },
    }
}
