//! Where computed functions are kept: an option of every command that makes data.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};

#[derive(Args)]
pub struct Cache {
    /// Folder for computed functions; "none" computes them anew [default: the user's cache folder]
    #[arg(long, value_name = "FOLDER", env = "VIDON_CACHE")]
    cache: Option<PathBuf>,
}

impl Cache {
    /// The folder, if functions are to be kept.
    pub fn folder(&self) -> Result<Option<PathBuf>> {
        match &self.cache {
            Some(folder) if folder.as_os_str() == "none" => Ok(None),
            Some(folder) => Ok(Some(folder.clone())),
            None => match dirs::cache_dir() {
                Some(folder) => Ok(Some(folder.join("vidon"))),
                None => Err(Failure::Words(
                    "the user's cache folder is not known; choose one with --cache, or --cache none".into(),
                )),
            },
        }
    }
}
