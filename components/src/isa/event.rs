//! The wait and the update that a record carries. In: modes, ids and the one shared value. Out: bytes +04..+0B.
//! Facts: `spec/isa.md 8.2`. Both lanes share one value, so a record cannot wait for one number and add another.

use super::field::{Fault, Place, Wire, at, bytes_at};
use crate::diag::codes::isa as code;
use crate::program::Record;

/// No wait or no update.
pub const NONE: u8 = 0;
/// Wait until an event is set, then clear it.
pub const WAIT_EVENT_SET_CLEAR: u8 = 0x07;
/// Wait until the semaphore is at least the value.
pub const WAIT_GE: u8 = 0x05;
/// Wait until the semaphore is at least the content of the register that the value names.
pub const WAIT_GE_REGISTER: u8 = 0x85;
/// On completion: set an event.
pub const UPDATE_EVENT_SET: u8 = 0x11;
/// On completion: add the value to the semaphore.
pub const UPDATE_ADD: u8 = 0x15;
/// On completion: subtract the value.
pub const UPDATE_SUB: u8 = 0x17;
/// On completion: add one.
pub const UPDATE_INC: u8 = 0x13;
/// On completion: subtract one.
pub const UPDATE_DEC: u8 = 0x14;
/// On completion: write the value.
pub const UPDATE_WRITE: u8 = 0x19;

/// Names of the wait modes in text.
pub const WAIT_NAMES: &[(u8, &str)] = &[
    (0x00, "none"),
    (0x01, "eq"),
    (0x02, "lt"),
    (0x03, "le"),
    (0x04, "gt"),
    (0x05, "ge"),
    (0x06, "set"),
    (0x07, "set_clear"),
    (0x0E, "clear"),
    (0x0F, "clear_set"),
    (0x81, "eq_reg"),
    (0x82, "lt_reg"),
    (0x83, "le_reg"),
    (0x84, "gt_reg"),
    (0x85, "ge_reg"),
];

/// Names of the update modes in text; `_read` ones fire when the operands have been read.
pub const UPDATE_NAMES: &[(u8, &str)] = &[
    (0x00, "none"),
    (0x01, "set_read"),
    (0x02, "clear_read"),
    (0x03, "inc_read"),
    (0x04, "dec_read"),
    (0x05, "add_read"),
    (0x07, "sub_read"),
    (0x09, "write_read"),
    (0x11, "set"),
    (0x12, "clear"),
    (0x13, "inc"),
    (0x14, "dec"),
    (0x15, "add"),
    (0x17, "sub"),
    (0x19, "write"),
];

/// The inline wait and update of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Events {
    /// One of the wait codes, 0 for none.
    pub wait_mode: u8,
    /// Semaphore or event.
    pub wait_id: u8,
    /// One of the update codes, 0 for none.
    pub update_mode: u8,
    /// Semaphore or event.
    pub update_id: u8,
    /// Threshold of the wait and operand of the update.
    pub value: u32,
}

impl Events {
    /// Neither wait nor update.
    pub const NONE: Events = Events { wait_mode: 0, wait_id: 0, update_mode: 0, update_id: 0, value: 0 };

    /// Whether the wait uses the shared value.
    pub fn wait_uses_value(self) -> bool {
        matches!(self.wait_mode & 0x7F, 1..=5)
    }

    /// Whether the update uses the shared value.
    pub fn update_uses_value(self) -> bool {
        matches!(self.update_mode & 0x0F, 5 | 7 | 9)
    }

    /// Adds a wait; refused when another wait stands there or the shared value is taken by another number.
    pub fn waiting(mut self, mode: u8, id: u8, value: u32) -> Result<Events, Fault> {
        if self.wait_mode != 0 || (self.update_uses_value() && self.value != value) {
            return Err(Fault::new(
                &code::ISA_EVENTS,
                4,
                value as i64,
                "one wait, sharing its value with the update",
            ));
        }
        (self.wait_mode, self.wait_id) = (mode, id);
        if self.wait_uses_value() {
            self.value = value;
        }
        Ok(self)
    }

    /// Adds an update; refused when another update stands there or the shared value is taken by another number.
    pub fn updating(mut self, mode: u8, id: u8, value: u32) -> Result<Events, Fault> {
        let next = Events { update_mode: mode, ..self };
        if self.update_mode != 0
            || (self.wait_uses_value() && next.update_uses_value() && self.value != value)
        {
            return Err(Fault::new(
                &code::ISA_EVENTS,
                6,
                value as i64,
                "one update, sharing its value with the wait",
            ));
        }
        (self.update_mode, self.update_id) = (mode, id);
        if self.update_uses_value() {
            self.value = value;
        }
        Ok(self)
    }
}

impl Wire for Events {
    const BYTES: u8 = 8;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        [self.wait_mode, self.wait_id, self.update_mode, self.update_id].put(r, p);
        self.value.put(r, at(p.at + 4));
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let [wait_mode, wait_id, update_mode, update_id] = bytes_at(r, p.at);
        let known = |names: &[(u8, &str)], m: u8| names.iter().any(|(c, _)| *c == m);
        if !known(WAIT_NAMES, wait_mode) {
            return Err(Fault::new(&code::ISA_EVENTS, p.at, wait_mode as i64, "a wait mode"));
        }
        if !known(UPDATE_NAMES, update_mode) {
            return Err(Fault::new(&code::ISA_EVENTS, p.at + 2, update_mode as i64, "an update mode"));
        }
        Ok(Events { wait_mode, wait_id, update_mode, update_id, value: u32::get(r, at(p.at + 4))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_and_update_share_one_value() {
        let e = Events::NONE.waiting(WAIT_GE, 9, 4).unwrap();
        assert!(e.updating(UPDATE_INC, 10, 0).is_ok());
        assert!(e.updating(UPDATE_ADD, 10, 4).is_ok());
        assert_eq!(e.updating(UPDATE_ADD, 10, 5).unwrap_err().code.id, "MUR0818");
        assert_eq!(e.waiting(WAIT_GE, 11, 4).unwrap_err().code.id, "MUR0818");
    }
}
