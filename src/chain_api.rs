//! stub
use crate::name::Name;
pub enum RawAbi{Abi(Vec<u8>),None,UnknownAccount}
pub struct ChainApi;
impl ChainApi{ pub async fn raw_abi(&self,_:Name)->Result<RawAbi,std::io::Error>{Ok(RawAbi::None)}}
