"""What the user writes: Func, Var, RDom, Buffer, Param, schedule directives."""
