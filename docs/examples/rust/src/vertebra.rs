//! Files that `vertebra build` made, safely: what of vertebra.h, ABI 1, a program needs that classifies.
//!
//! A `Model` is an open file, shared by its clones and by any number of threads; a `Session` is what one thread runs,
//! and may move between threads. What fails is an `Error` with the library's sentence.
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// The declarations of vertebra.h, by hand. Structs begin with their size, so that later libraries may know more fields
/// than stand here.
mod c {
    use std::os::raw::{c_char, c_int, c_void};

    pub const ABI: u32 = 1;
    pub const OUTPUT: c_int = 2;
    pub const F32: c_int = 1;

    #[repr(C)]
    pub struct Error {
        pub status: c_int,
        pub text: [c_char; 1024],
    }

    #[repr(C)]
    pub struct Array {
        pub size: usize,
        pub name: *const c_char,
        pub kind: c_int,
        pub element: c_int,
        pub device: c_int,
        pub rank: i32,
        pub dim: [i64; 8],
        pub data: *mut c_void,
    }

    #[repr(C)]
    pub struct OpenOptions {
        pub size: usize,
        pub weights: *const c_char,
        pub verify: bool,
    }

    pub enum Model {}
    pub enum Session {}

    #[link(name = "vertebra_rt")]
    extern "C" {
        pub fn vtb_abi_version() -> u32;
        pub fn vtb_model_open(
            path: *const c_char,
            options: *const OpenOptions,
            out: *mut *mut Model,
            error: *mut Error,
        ) -> c_int;
        pub fn vtb_model_retain(model: *mut Model) -> *mut Model;
        pub fn vtb_model_release(model: *mut Model);
        pub fn vtb_session_open(
            model: *mut Model,
            options: *const c_void,
            out: *mut *mut Session,
            error: *mut Error,
        ) -> c_int;
        pub fn vtb_session_close(session: *mut Session);
        pub fn vtb_session_array(
            session: *mut Session,
            kind: c_int,
            name: *const c_char,
            out: *mut Array,
            error: *mut Error,
        ) -> c_int;
        pub fn vtb_session_load_image(
            session: *mut Session,
            input: *const c_char,
            row: i64,
            path: *const c_char,
            error: *mut Error,
        ) -> c_int;
        pub fn vtb_session_run(session: *mut Session, rows: i64, error: *mut Error) -> c_int;
    }
}

/// What the library says of a call that failed; `status` is a `vtb_status`.
#[derive(Debug)]
pub struct Error {
    pub status: i32,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

fn wrong_use(text: String) -> Error {
    Error { status: 2, text }
}

/// A call that takes a place for its error.
fn checked(call: impl FnOnce(*mut c::Error) -> c_int) -> Result<()> {
    let mut error = c::Error {
        status: 0,
        text: [0; 1024],
    };
    match call(&mut error) {
        0 => Ok(()),
        status => {
            let text = unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_string_lossy();
            Err(Error {
                status,
                text: text.into_owned(),
            })
        }
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| wrong_use(format!("{} has a NUL in it", path.display())))
}

/// An open file: its code and its parameters, which nobody changes.
pub struct Model(*mut c::Model);

// vertebra.h: a model may be used by any number of threads
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    /// Opens a file and compares it with the hash that it was built with.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        let has = unsafe { c::vtb_abi_version() };
        if has < c::ABI {
            return Err(wrong_use(format!(
                "libvertebra_rt has ABI {has}, and {} is needed",
                c::ABI
            )));
        }
        let path = c_path(path.as_ref())?;
        let size = std::mem::size_of::<c::OpenOptions>();
        let options = c::OpenOptions {
            size,
            weights: ptr::null(),
            verify: true,
        };
        let mut model = ptr::null_mut();
        checked(|error| unsafe { c::vtb_model_open(path.as_ptr(), &options, &mut model, error) })?;
        Ok(Model(model))
    }

    /// A session with all defaults, which keeps the model as long as it needs it.
    pub fn session(&self) -> Result<Session> {
        let mut session = ptr::null_mut();
        checked(|error| unsafe { c::vtb_session_open(self.0, ptr::null(), &mut session, error) })?;
        let mut session = Session {
            at: session,
            batch: 0,
            classes: 0,
        };
        let shape = session.output()?;
        if shape.rank != 2 || shape.element != c::F32 {
            return Err(wrong_use("the model gives no scores of classes".into()));
        }
        session.batch = shape.dim[0] as usize;
        session.classes = shape.dim[1] as usize;
        Ok(session)
    }
}

impl Clone for Model {
    fn clone(&self) -> Model {
        Model(unsafe { c::vtb_model_retain(self.0) })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { c::vtb_model_release(self.0) }
    }
}

/// What one thread runs: buffers and workspace of a model that classifies.
pub struct Session {
    at: *mut c::Session,
    batch: usize,
    classes: usize,
}

// one thread at a time, any of them: methods that change it take it as mutable
unsafe impl Send for Session {}

impl Session {
    /// Most rows of a run.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// An image file becomes row `row` of the input, cut, resized and normalised as the model was trained.
    pub fn load_image(&mut self, row: usize, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path(path.as_ref())?;
        let input: *const c_char = ptr::null();
        checked(|error| unsafe { c::vtb_session_load_image(self.at, input, row as i64, path.as_ptr(), error) })
    }

    /// Runs the first `rows` rows and gives their scores, a slice of `classes` numbers each, until the next change.
    pub fn run(&mut self, rows: usize) -> Result<std::slice::Chunks<'_, f32>> {
        if rows == 0 || rows > self.batch {
            return Err(wrong_use(format!("{rows} rows, of 1 to {}", self.batch)));
        }
        checked(|error| unsafe { c::vtb_session_run(self.at, rows as i64, error) })?;
        let scores = self.output()?;
        let all = unsafe { std::slice::from_raw_parts(scores.data as *const f32, rows * self.classes) };
        Ok(all.chunks(self.classes))
    }

    fn output(&mut self) -> Result<c::Array> {
        let mut array: c::Array = unsafe { std::mem::zeroed() };
        array.size = std::mem::size_of::<c::Array>();
        checked(|error| unsafe { c::vtb_session_array(self.at, c::OUTPUT, ptr::null(), &mut array, error) })?;
        Ok(array)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        unsafe { c::vtb_session_close(self.at) }
    }
}
