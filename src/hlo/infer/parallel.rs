//! Operations that talk to other devices or run in the background. A collective has the shape that its operands have on
//! every device; what starts in the background gives a tuple of operands, result and context, and its other half picks
//! the result. Facts: `spec/hlo.md 4`.

use super::{Expect, Inspect, Rule, array, bare, flags};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloOp, Shape};

impl<'m> Inspect<'m> {
    pub(super) fn parallel(&mut self) -> Rule<Expect> {
        use HloOp::*;
        match self.inst.op {
            AllReduce | AllReduceStart => {
                self.groups()?;
                self.combiner()?;
                self.as_operands(1)
            }
            AllToAll => {
                let (size, n) = (self.groups()?, self.inst.operands().len());
                let split = matches!(self.inst.attrs(), Attrs::Dimensions(_));
                if let Some(size) = size.filter(|size| !split && *size != n) {
                    return self.bad_attribute(
                        "all-to-all has one operand for each device of a group",
                        n,
                        size,
                    );
                }
                self.as_operands(1)
            }
            CollectiveBroadcast => {
                self.groups()?;
                self.as_operands(1)
            }
            CollectivePermute => {
                self.pairs()?;
                self.count_from(1)?;
                Ok(Expect::Exact(bare(self.any(0)?)))
            }
            AllReduceDone | Domain => {
                self.count(1)?;
                Ok(Expect::Exact(bare(self.any(0)?)))
            }
            AllGather => self.gathered(&self.inst.shape().clone(), true),
            ReduceScatter => {
                self.combiner()?;
                self.gathered(&self.inst.shape().clone(), false)
            }
            AllGatherStart => match self.parts(2)? {
                [operands, result, ..] => {
                    self.is_operands(operands)?;
                    self.gathered(result, true)
                }
                _ => Err(()),
            },
            CollectivePermuteStart => match self.pairs().and_then(|()| self.parts(2))? {
                [operand, result, ..] => {
                    let own = self.any(0)?;
                    if !own.same(operand) || !own.same(result) {
                        return self.bad_shape("operand and result are those of the permute", own);
                    }
                    Ok(Expect::Written)
                }
                _ => Err(()),
            },
            AllGatherDone | CollectivePermuteDone | AsyncDone => self.element_of_operand(1),
            CopyDone => self.element_of_operand(0),
            CopyStart => {
                self.count(1)?;
                let own = bare(self.any(0)?);
                let context = array(HloType::U32, Vec::new(), Vec::new());
                Ok(Expect::Exact(Shape::Tuple(vec![own.clone(), own, context])))
            }
            AsyncStart => {
                let parts = self.parts(2)?;
                self.is_operands(&parts[0])?;
                let operands: Rule<Vec<Shape>> =
                    (0..self.inst.operands().len()).map(|i| self.any(i).cloned()).collect();
                let root = self.fits(0, &operands?, None)?;
                if !root.same(&parts[1]) {
                    return self.bad_shape("the second part is the called computation's result", root);
                }
                Ok(Expect::Written)
            }
            AsyncUpdate => {
                self.count(1)?;
                Ok(Expect::Exact(bare(self.any(0)?)))
            }
            PartitionId | ReplicaId => {
                self.count(0)?;
                Ok(Expect::Exact(array(HloType::U32, Vec::new(), Vec::new())))
            }
            Send => {
                self.count(2)?;
                self.token(1)?;
                let context = array(HloType::U32, Vec::new(), Vec::new());
                Ok(Expect::Exact(Shape::Tuple(vec![bare(self.any(0)?), context, Shape::Token])))
            }
            SendDone => {
                self.count(1)?;
                Ok(Expect::Exact(Shape::Token))
            }
            Recv => {
                self.count(1)?;
                self.token(0)?;
                match self.parts(3)? {
                    [_, _, Shape::Token] => Ok(Expect::Written),
                    _ => self.bad_shape("recv gives data, a context and a token", "(T, u32[], token[])"),
                }
            }
            RecvDone => {
                self.count(1)?;
                match self.any(0)? {
                    Shape::Tuple(parts) if parts.len() == 3 => {
                        Ok(Expect::Exact(Shape::Tuple(vec![bare(&parts[0]), Shape::Token])))
                    }
                    _ => self.bad_operand(0, "what recv gives"),
                }
            }
            Infeed => {
                self.count(1)?;
                self.token(0)?;
                match self.parts(2)? {
                    [_, Shape::Token] => Ok(Expect::Written),
                    _ => self.bad_shape("infeed gives data and a token", "(T, token[])"),
                }
            }
            Outfeed => {
                self.count(2)?;
                self.token(1)?;
                let own = self.any(0)?;
                let told = self
                    .inst
                    .kept_value("outfeed_shape")
                    .and_then(|t| crate::hlo::text::shape_list(&format!("{{{t}}}"))?.pop());
                if let Some(told) = told.filter(|told| !told.same(own)) {
                    return self.bad_attribute("outfeed_shape is not the operand's shape", told, own);
                }
                Ok(Expect::Exact(Shape::Token))
            }
            AddDependency => {
                self.count(2)?;
                self.token(1)?;
                Ok(Expect::Exact(bare(self.any(0)?)))
            }
            CustomCall => self.custom_call(),
            // Their rules are those of whoever made them.
            _ => Ok(Expect::Written),
        }
    }

    /// What a custom call gives is its maker's matter; layouts that it asks for must be those of its operands.
    fn custom_call(&mut self) -> Rule<Expect> {
        let Some(asked) = self.inst.kept_value("operand_layout_constraints") else {
            return Ok(Expect::Written);
        };
        let own: Rule<Vec<&Shape>> = (0..self.inst.operands().len()).map(|i| self.any(i)).collect();
        let (own, wanted) = (own?, crate::hlo::text::shape_list(asked).unwrap_or_default());
        if wanted.len() == own.len() && wanted.iter().zip(&own).all(|(w, o)| w.same(o)) {
            return Ok(Expect::Written);
        }
        let own: Vec<String> = own.iter().map(|s| s.to_string()).collect();
        self.bad_attribute("operand_layout_constraints are not the operands' shapes", asked, own.join(", "))
    }

    /// How many devices the collective's numbers count, where the module says how many there are.
    fn devices(&self) -> Option<i64> {
        let count = |key: &str| {
            let given = self.module.extra.iter().find(|(k, _)| k == key);
            given.and_then(|(_, v)| v.parse::<i64>().ok())
        };
        let (replicas, partitions) = (count("replica_count"), count("num_partitions"));
        if replicas.is_none() && partitions.is_none() {
            return None;
        }
        let (replicas, partitions) = (replicas.unwrap_or(1), partitions.unwrap_or(1));
        use HloOp::*;
        // Some say whether their numbers go over replicas and partitions; the others follow the channel.
        let may_say =
            matches!(self.inst.op, AllReduce | AllReduceStart | AllGather | AllGatherStart | ReduceScatter);
        let channel = self.inst.kept_value("channel_id").is_some();
        Some(match (may_say, channel, self.inst.kept_value("use_global_device_ids") == Some("true")) {
            (true, true, true) => replicas.saturating_mul(partitions),
            (false, true, _) => partitions,
            _ => replicas,
        })
    }

    /// The groups of devices: none empty, no device twice, the devices counted up from 0, and all groups of one size. Returns
    /// that size; `None` where no groups are named.
    fn groups(&mut self) -> Rule<Option<usize>> {
        let text = self.inst.kept_value("replica_groups").unwrap_or("{}").to_owned();
        if self.inst.kept_value("use_global_device_ids") == Some("true") {
            let what = if self.inst.kept_value("channel_id").is_none() {
                Some("use_global_device_ids needs a channel_id")
            } else if text == "{}" {
                Some("use_global_device_ids needs replica_groups")
            } else {
                None
            };
            if let Some(what) = what {
                return self.bad_attribute(what, text, "channel_id and replica_groups");
            }
        }
        let numbers = |t: &str| -> Vec<i64> {
            t.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter_map(|n| n.parse().ok()).collect()
        };
        if let Some((shape, _)) = text.split_once("<=") {
            // `[groups,size]<=[...]`: an arrangement of all devices.
            return Ok(match numbers(shape).as_slice() {
                [_, size] => usize::try_from(*size).ok(),
                _ => None,
            });
        }
        let Some(inside) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else { return Ok(None) };
        if inside.trim().is_empty() {
            return Ok(None);
        }
        let groups: Vec<Vec<i64>> = inside.split('}').filter(|g| g.contains('{')).map(numbers).collect();
        let mut devices: Vec<i64> = groups.iter().flatten().copied().collect();
        devices.sort_unstable();
        let counted = devices.iter().enumerate().all(|(i, d)| *d == i as i64);
        let size = groups.first().map_or(0, Vec::len);
        let all = self.devices().is_none_or(|n| n == devices.len() as i64);
        if size == 0 || !counted || !all || groups.iter().any(|g| g.len() != size) {
            let wanted = "groups of one size that name every device, 0, 1, 2 ..., once";
            return self.bad_attribute("replica_groups are inconsistent", text, wanted);
        }
        Ok(Some(size))
    }

    /// No device sends twice or receives twice.
    fn pairs(&mut self) -> Rule<()> {
        let text = self.inst.kept_value("source_target_pairs").unwrap_or("");
        let numbers: Vec<i64> =
            text.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter_map(|n| n.parse().ok()).collect();
        for (side, name) in ["source", "target"].iter().enumerate() {
            let mut devices: Vec<i64> = numbers.iter().skip(side).step_by(2).copied().collect();
            devices.sort_unstable();
            let limit = self.devices().unwrap_or(i64::MAX);
            if devices.iter().any(|d| !(0..limit).contains(d)) {
                let message = format!("a {name} is no device of the module");
                return self.bad_attribute(&message, text, format!("numbers from 0 to {}", limit - 1));
            }
            if devices.windows(2).any(|pair| pair[0] == pair[1]) {
                let message = format!("a device is the {name} of two pairs");
                return self.bad_attribute(&message, text, format!("each {name} once"));
            }
        }
        Ok(())
    }

    fn count_from(&mut self, n: usize) -> Rule<()> {
        if self.inst.operands().len() >= n {
            return Ok(());
        }
        self.count(n)
    }

    fn token(&mut self, i: usize) -> Rule<()> {
        match self.any(i)? {
            Shape::Token => Ok(()),
            _ => self.bad_operand(i, "token[]"),
        }
    }

    /// The shape of the one operand, or the tuple of all.
    fn as_operands(&mut self, at_least: usize) -> Rule<Expect> {
        self.count_from(at_least)?;
        let shapes: Rule<Vec<Shape>> =
            (0..self.inst.operands().len()).map(|i| self.any(i).map(bare)).collect();
        let mut shapes = shapes?;
        Ok(Expect::Exact(if shapes.len() == 1 { shapes.swap_remove(0) } else { Shape::Tuple(shapes) }))
    }

    /// Parts of the written tuple, at least `n`.
    fn parts(&mut self, n: usize) -> Rule<&'m [Shape]> {
        match self.inst.shape() {
            Shape::Tuple(parts) if parts.len() >= n => Ok(parts),
            _ => self.bad_shape("the result is a tuple", format!("a tuple of at least {n} parts")),
        }
    }

    /// `given` is the one operand's shape, or the tuple of all operands'.
    fn is_operands(&mut self, given: &Shape) -> Rule<()> {
        let own: Rule<Vec<Shape>> = (0..self.inst.operands().len()).map(|i| self.any(i).cloned()).collect();
        let own = own?;
        let same = own.len() == 1 && own[0].same(given) || Shape::Tuple(own.clone()).same(given);
        if same { Ok(()) } else { self.bad_shape("the first part is the operands", Shape::Tuple(own)) }
    }

    fn element_of_operand(&mut self, index: usize) -> Rule<Expect> {
        self.count(1)?;
        match self.any(0)? {
            Shape::Tuple(parts) if parts.len() > index => Ok(Expect::Exact(bare(&parts[index]))),
            _ => self.bad_operand(0, "what the starting half gives"),
        }
    }

    /// The reducing computation: two scalars to one.
    fn combiner(&mut self) -> Rule<()> {
        let computation = self.computation(0)?;
        let (parameters, root) = self.signature(computation);
        let scalar = |s: &Shape| s.array().is_some_and(|a| a.rank() == 0);
        let fits = parameters.len() == 2 && parameters.iter().all(|s| scalar(s)) && root.is_some_and(scalar);
        if fits {
            return Ok(());
        }
        let what = format!("'{}' does not combine two scalars", computation.name);
        let code = &murre_components::diag::codes::verify::VERIFY_COMPUTATION;
        self.problem(code, what, format!("{} parameters", parameters.len()), "two scalars".to_owned())
    }

    /// The result is the operands with one dimension taken (`grows`) or divided by the number of devices.
    fn gathered(&mut self, result: &Shape, grows: bool) -> Rule<Expect> {
        self.count_from(1)?;
        let along = match self.inst.attrs() {
            Attrs::Dimensions(dims) if dims.len() == 1 => dims[0],
            other => {
                return self.bad_attribute(
                    "one dimension must be named",
                    format!("{other:?}"),
                    "dimensions={d}",
                );
            }
        };
        let size = self.groups()?;
        let n = self.inst.operands().len();
        for i in 0..n {
            let own = self.array(i)?;
            let given = match result {
                Shape::Tuple(parts) if n > 1 || parts.len() == 1 => parts.get(i),
                one => Some(one),
            };
            let d = usize::try_from(along).ok().filter(|d| *d < own.rank());
            let Some(d) = d else { return self.bad_attribute("the dimension is out of range", along, own) };
            let fits = given.and_then(|g| g.array()).is_some_and(|g| {
                let (small, large) = if grows { (own, g) } else { (g, own) };
                g.ty == own.ty
                    && g.rank() == own.rank()
                    && (0..own.rank()).all(|k| k == d || g.dims[k] == own.dims[k])
                    && match size {
                        Some(size) => small.dims[d].checked_mul(size as i64) == Some(large.dims[d]),
                        None => {
                            small.dims[d] == large.dims[d]
                                || small.dims[d] > 0 && large.dims[d] % small.dims[d] == 0
                        }
                    }
            });
            if !fits {
                let expected = array(own.ty, own.dims.clone(), flags(own));
                return self.bad_shape(
                    "only the named dimension may differ",
                    format!("{expected} but for dimension {d}"),
                );
            }
        }
        Ok(Expect::Written)
    }

    /// Fourier transforms and random numbers.
    pub(super) fn generated(&mut self) -> Rule<Expect> {
        use HloOp::*;
        match self.inst.op {
            Fft => self.fft(),
            Rng => {
                self.count(2)?;
                let to = self.written()?;
                for i in 0..2 {
                    let own = self.array(i)?;
                    if own.rank() != 0 || own.ty != to.ty {
                        return self.bad_operand(i, format!("{}[]", to.ty.name()));
                    }
                }
                Ok(Expect::Written)
            }
            RngGetAndUpdateState => {
                self.count(0)?;
                Ok(Expect::Exact(array(HloType::U64, vec![2], Vec::new())))
            }
            StochasticConvert => {
                self.count(2)?;
                let (a, random) = (self.array_of(0, "a float array", |t| t.is_float())?, self.array(1)?);
                if random.dims != a.dims || !random.ty.is_unsigned_int() || random.ty.bits() != a.ty.bits() {
                    return self.bad_operand(1, format!("u{} with dimensions {:?}", a.ty.bits(), a.dims));
                }
                let to = self.written()?.ty;
                Ok(Expect::Exact(array(to, a.dims.clone(), flags(a))))
            }
            _ => Ok(Expect::Written),
        }
    }

    fn fft(&mut self) -> Rule<Expect> {
        self.count(1)?;
        let kind = self.inst.kept_value("fft_type").unwrap_or("");
        let length: Vec<i64> = self
            .inst
            .kept_value("fft_length")
            .map(|t| t.trim_matches(['{', '}']).split(',').filter_map(|n| n.trim().parse().ok()).collect())
            .unwrap_or_default();
        let a = self.array(0)?;
        let (rank, n) = (a.rank(), length.len());
        if !(1..=3).contains(&n) || n > rank {
            return self.bad_attribute(
                "fft_length names 1 to 3 dimensions of the operand",
                format!("{length:?}"),
                a,
            );
        }
        let complex = |t| match t {
            HloType::F32 => Some(HloType::C64),
            HloType::F64 => Some(HloType::C128),
            _ => None,
        };
        let real = |t| match t {
            HloType::C64 => Some(HloType::F32),
            HloType::C128 => Some(HloType::F64),
            _ => None,
        };
        let (ty, mut dims) = (a.ty, a.dims.clone());
        let inner = dims.split_off(rank - n);
        let (last, half) = (length[n - 1], length[n - 1] / 2 + 1);
        let (result, from, to) = match kind {
            "RFFT" => (complex(ty), last, half),
            "IRFFT" => (real(ty), half, last),
            _ => (real(ty).map(|_| ty), last, last),
        };
        let Some(result) = result else {
            let wanted = if kind == "RFFT" { "f32 or f64" } else { "c64 or c128" };
            return self.bad_operand(0, wanted);
        };
        if inner[..n - 1] != length[..n - 1] || inner[n - 1] != from {
            return self.bad_operand(0, format!("the last dimensions as fft_length {length:?} has them"));
        }
        dims.extend(&length[..n - 1]);
        dims.push(to);
        Ok(Expect::Exact(array(result, dims, Vec::new())))
    }
}
