"""What server and clients agree on before any record is seen: method, plan, rounds."""

from fedspd.assemble.agreement.common import Agreed, agree

__all__ = ["Agreed", "agree"]
