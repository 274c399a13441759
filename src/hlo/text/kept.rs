//! Attributes that are kept as written: their values are checked for form, not interpreted.
//!
//! Facts: `spec/hlo.md 4`.

use super::{Parse, Parser};
use crate::hlo::lex::Tok;
use crate::hlo::words::{ALGORITHMS, API_VERSIONS, FFT_TYPES, PADDINGS, PRECISIONS, SCHEDULES};

impl<'a> Parser<'a> {
    /// Reads the value of a kept attribute. `false`: no attribute of this name is kept.
    pub(super) fn kept_value(&mut self, name: &str) -> Parse<bool> {
        match name {
            "channel_id"
            | "delta"
            | "cross_program_prefetch_index"
            | "inferred_dimension"
            | "num_carries" => {
                self.int()?;
            }
            "constrain_layout"
            | "use_global_device_ids"
            | "is_host_transfer"
            | "is_composite"
            | "custom_call_has_side_effect"
            | "is_reverse"
            | "is_associative" => {
                self.boolean()?;
            }
            "kind" => self.one_of(&["kLoop", "kInput", "kOutput", "kCustom"])?,
            "fft_type" => self.one_of(&FFT_TYPES)?,
            "distribution" => self.one_of(&["rng_uniform", "rng_normal"])?,
            "algorithm" => self.one_of(&ALGORITHMS[1..])?,
            "api_version" => self.one_of(&API_VERSIONS)?,
            "schedule" => self.one_of(&SCHEDULES)?,
            "padding_type" => self.one_of(&PADDINGS)?,
            "operand_precision" => self.list_of(|p| p.one_of(&PRECISIONS))?,
            "fft_length" | "lhs_ragged_dims" | "rhs_group_dims" => {
                self.int_list()?;
            }
            "infeed_config" | "outfeed_config" | "async_execution_thread" => self.quoted()?,
            "backend_config" => match self.tok.tok {
                Tok::Str(_) => self.quoted()?,
                _ => self.json()?,
            },
            "frontend_attributes" => self.frontend_attributes()?,
            "control-predecessors" => self.control_predecessors()?,
            "parameter_replication" => self.list_of(|p| p.boolean().map(drop))?,
            "source_target_pairs" => self.list_of(|p| {
                let pair = p.int_list()?;
                if pair.len() == 2 { Ok(()) } else { Err(p.unexpected("a pair such as {0,1}")) }
            })?,
            "replica_groups" => self.replica_groups()?,
            "result_accuracy" => self.result_accuracy()?,
            "outfeed_shape" => {
                self.shape()?;
            }
            "operand_layout_constraints" => self.list_of(|p| p.shape().map(drop))?,
            "sharding" => self.sharding()?,
            "origin"
            | "statistics"
            | "mode"
            | "slice_sizes"
            | "domain"
            | "literal"
            | "output_to_operand_aliasing"
            | "convolution_kind"
            | "sparsity_config" => {
                self.raw_value()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn one_of(&mut self, words: &[&str]) -> Parse<()> {
        match self.tok.tok {
            Tok::Word(w) if words.contains(&w) => {
                self.advance();
                Ok(())
            }
            _ => Err(self.unexpected(&format!("one of {}", words.join(", ")))),
        }
    }

    fn quoted(&mut self) -> Parse<()> {
        let Tok::Str(_) = self.tok.tok else { return Err(self.unexpected("a quoted text")) };
        self.advance();
        Ok(())
    }

    /// `{a,b,c}`, each by `each`.
    pub(super) fn list_of(&mut self, each: impl Fn(&mut Self) -> Parse<()>) -> Parse<()> {
        self.expect(b'{')?;
        let mut first = true;
        while !self.eat(b'}') {
            if !std::mem::take(&mut first) {
                self.expect(b',')?;
            }
            each(self)?;
        }
        Ok(())
    }

    /// A JSON object: whatever stands between balanced braces, quoted texts aside.
    fn json(&mut self) -> Parse<()> {
        if !self.is(b'{') {
            return Err(self.unexpected("a quoted text or a JSON object"));
        }
        let bytes = self.lexer.text().as_bytes();
        let (mut at, mut depth) = (self.tok.start, 0usize);
        loop {
            match bytes.get(at) {
                None => return Err(self.unexpected("a JSON object with its end")),
                Some(b'"') => {
                    at += 1;
                    while !matches!(bytes.get(at), Some(b'"') | None) {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                }
                Some(b'{') => depth += 1,
                Some(b'}') if depth == 1 => break,
                Some(b'}') => depth -= 1,
                Some(_) => {}
            }
            at += 1;
        }
        self.lexer.jump_counting(at + 1);
        self.tok.end = at + 1;
        self.advance();
        Ok(())
    }

    /// `{a="1",b={"json":1}}`
    pub(super) fn frontend_attributes(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        let mut first = true;
        while !self.eat(b'}') {
            if !std::mem::take(&mut first) {
                self.expect(b',')?;
            }
            let Tok::AttrName(_) = self.tok.tok else { return Err(self.unexpected("name=")) };
            self.advance();
            match self.tok.tok {
                Tok::Str(_) => self.quoted()?,
                _ => self.json()?,
            }
        }
        Ok(())
    }

    /// `{%a, %b}`: instructions that stand before this one.
    fn control_predecessors(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        loop {
            let at = self.span();
            let name = self.name("an instruction")?;
            if self.names.get(&self.module, name).is_none() {
                let what = format!("control predecessor '{name}' is not defined before this instruction");
                let code = &murre_components::diag::codes::read::READ_UNDEFINED;
                let fault = self.diagnostic(code, at, what).found(name);
                self.note(fault)?;
            }
            if !self.eat(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// `{{0,1},{2,3}}`, `[2,4]<=[8]T(1,0)`, or a mesh and its axes.
    fn replica_groups(&mut self) -> Parse<()> {
        if self.is(b'{') {
            return self.list_of(|p| p.int_list().map(drop));
        }
        self.skip_group()?;
        self.iota().map(drop)
    }

    /// `<=[8]T(1,0)`, if it stands here.
    fn iota(&mut self) -> Parse<bool> {
        if self.tok.tok != Tok::AtMost {
            return Ok(false);
        }
        self.advance();
        self.skip_group()?;
        if self.tok.tok == Tok::Word("T") {
            self.advance();
            self.skip_group()?;
        }
        Ok(true)
    }

    fn result_accuracy(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        match self.tok.tok {
            Tok::AttrName("mode") => {
                self.advance();
                self.one_of(&["default", "highest"])?;
            }
            Tok::AttrName("tolerance") => {
                self.advance();
                self.skip_group()?;
            }
            _ => return Err(self.unexpected("mode= or tolerance=")),
        }
        self.expect(b'}')
    }

    /// `{replicated}`, `{devices=[2,1]<=[2] last_tile_dim_replicate}`, `{{replicated}, {maximal device=0}}`.
    fn sharding(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        if self.is(b'{') || self.is(b'}') {
            let mut first = true;
            while !self.eat(b'}') {
                if !std::mem::take(&mut first) {
                    self.expect(b',')?;
                }
                if !self.is(b'{') {
                    return Err(self.unexpected("a sharding"));
                }
                self.one_sharding()?;
            }
            return Ok(());
        }
        self.sharding_body()
    }

    /// A sharding inside a tuple's: tuples do not nest in it.
    fn one_sharding(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        self.sharding_body()
    }

    fn sharding_body(&mut self) -> Parse<()> {
        let (mut maximal, mut device, mut any) = (false, false, false);
        while !self.eat(b'}') {
            any = true;
            match self.tok.tok {
                Tok::Word("maximal") => {
                    maximal = true;
                    self.advance();
                }
                Tok::Word("replicated" | "manual" | "unknown" | "unreduced" | "last_tile_dim_replicate") => {
                    self.advance();
                }
                Tok::Word("shard_as" | "shard_like") => {
                    self.advance();
                    self.int()?;
                }
                Tok::AttrName("device") => {
                    device = true;
                    self.advance();
                    self.int()?;
                }
                Tok::AttrName("devices") => {
                    self.advance();
                    self.skip_group()?;
                    if self.iota()? {
                        continue;
                    }
                    self.int()?;
                    while self.eat(b',') {
                        self.int()?;
                    }
                }
                Tok::AttrName("last_tile_dims") => {
                    self.advance();
                    self.list_of(|p| p.one_of(&["replicated", "manual", "unreduced"]))?;
                }
                Tok::AttrName("metadata") => {
                    self.advance();
                    self.skip_group()?;
                }
                // `mesh['x'=2] [{'x'}, {}]`: to the brace that ends it.
                Tok::Word("mesh") => return self.mesh_sharding(),
                _ => return Err(self.unexpected("a word of a sharding or '}'")),
            }
        }
        if !any || maximal != device {
            return Err(self.unexpected("a sharding; {maximal device=N} names one device"));
        }
        Ok(())
    }

    fn mesh_sharding(&mut self) -> Parse<()> {
        let bytes = self.lexer.text().as_bytes();
        let (mut at, mut depth) = (self.tok.start, 1usize);
        while depth > 0 {
            match bytes.get(at) {
                None | Some(b'\n') => return Err(self.unexpected("'}' behind a mesh sharding")),
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(_) => {}
            }
            at += 1;
        }
        self.lexer.jump_counting(at);
        self.tok.end = at;
        self.advance();
        Ok(())
    }
}
